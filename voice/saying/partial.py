"""What there is of a narration that is not finished: a folder beside what it will be.

The sound is kept as it is, so that an encoder can be led to the same place again; what is known of
it is written anew after each piece, and never half. So a run that is killed at any time can be
gone on with, and gives the bytes that it would have given.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import numpy as np

from engines.audio import Pcm
from pipelines.narration.joining import Seam
from voice.saying.text import SayError

_STATE, _SOUND, _ENCODED = "state.json", "sound.s16", "encoded"
_BLOCK_S: Final = 1


@dataclass(frozen=True, slots=True)
class State:
    """``identity``: what must be the same for the sound to go on. Of all outputs the first
    ``outputs`` are finished; of the next, ``pieces`` are said, which are ``samples`` for ``done``
    characters, and the chapters that have begun did so at ``starts``."""

    identity: dict[str, str]
    outputs: int = 0
    pieces: int = 0
    samples: int = 0
    done: int = 0
    starts: tuple[int, ...] = ()
    seam: Seam = field(default_factory=Seam)


class Partial:
    """Of one run, which has it alone. Raises SayError where it cannot be used, and OSError."""

    def __init__(self, folder: Path, identity: Mapping[str, str], *, resume: bool) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._sound = _opened(folder / _SOUND)
        try:
            resumed = _read(folder, identity) if resume else None
            self.state = resumed or State(dict(identity))
            self._samples = 0
            self._rewind(self.state.samples)
            self._keep()
        except BaseException:
            self._sound.close()
            raise

    @property
    def begun(self) -> bool:
        """There is something to go on from."""
        return bool(self.state.outputs or self.state.pieces)

    @property
    def encoded(self) -> Path:
        """Where an output grows, on the file system where it will be."""
        return self.folder / _ENCODED

    @property
    def samples(self) -> int:
        """Of this output, those after the last piece included."""
        return self._samples

    def put(self, pcm: Pcm) -> None:
        """The next sound."""
        self._sound.write(pcm.to_bytes())
        self._sound.flush()  # where the disk is full, that is known at once
        self._samples += len(pcm)

    def piece_ended(self, done: int, seam: Seam, starts: tuple[int, ...]) -> None:
        """All that was put up to here is certain."""
        self.state = replace(
            self.state,
            pieces=self.state.pieces + 1,
            samples=self._samples,
            done=done,
            starts=starts,
            seam=seam,
        )
        self._keep()

    def output_ended(self, path: Path | None) -> None:
        """What was encoded is whole, and gets its name; None where nothing of it can be heard."""
        if path is not None:
            self.encoded.replace(path)
        # The voice is as loud in the next file; nothing is before it there to pause after.
        seam = Seam(self.state.seam.trend, self.state.seam.peak)
        self.state = State(self.state.identity, self.state.outputs + 1, seam=seam)
        self._keep()
        self._rewind(0)

    def sound(self) -> Iterator[Pcm]:
        """All that there is of this output."""
        rate = self.state.seam.rate
        self._sound.seek(0)
        while rate and (data := self._sound.read(2 * _BLOCK_S * rate)):
            yield Pcm(np.frombuffer(data, "<i2"), rate)
        self._sound.seek(0, os.SEEK_END)

    def leave(self) -> None:
        """For another run to go on with; where there is nothing to go on from, nothing is left."""
        if not self.begun:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._sound.close()

    def remove(self) -> None:
        """All of it is done."""
        shutil.rmtree(self.folder)
        self._sound.close()  # only now: another run that locked it would write what goes

    def _rewind(self, samples: int) -> None:
        if self._sound.seek(0, os.SEEK_END) < 2 * samples:
            raise SayError(f"{self.folder}: is damaged: without --resume, it is begun anew")
        self._sound.truncate(2 * samples)
        self._sound.seek(2 * samples)
        self._samples = samples

    def _keep(self) -> None:
        fresh = self.folder / f"{_STATE}.new"
        fresh.write_bytes(msgspec.json.encode(self.state))
        fresh.replace(self.folder / _STATE)


def _opened(path: Path) -> BinaryIO:
    sound = path.open("a+b")
    try:
        fcntl.flock(sound, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sound.close()
        told = "another voice say is at work on it: wait for it, or write elsewhere"
        raise SayError(f"{path.parent}: {told}") from None
    return sound


def _read(folder: Path, identity: Mapping[str, str]) -> State | None:
    """The state of an earlier run of the same; None where there is none."""
    try:
        state = msgspec.json.decode((folder / _STATE).read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        told = f"is damaged ({error}): without --resume, it is begun anew"
        raise SayError(f"{folder}: {told}") from error
    different = [name for name in identity if state.identity.get(name) != identity[name]]
    if different:
        told = f"was begun with another {' and another '.join(different)}: give what it was begun"
        raise SayError(f"{folder}: {told} with; or, without --resume, begin anew")
    return state
