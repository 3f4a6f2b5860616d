"""One run of ``voice say``: from chapters to files, each piece kept as soon as it is said."""

from __future__ import annotations

import asyncio
import os
import sys
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Final

from engines.audio import Pcm
from engines.ports import Measured, Tts
from pipelines.media.threads import OneThread, one_thread
from pipelines.media.writing import Encoder
from pipelines.narration.chapters import Chapter
from pipelines.narration.joining import Joiner, Seam
from pipelines.narration.narrating import AHEAD, narrate
from pipelines.narration.pieces import Narration, Piece, pieces, size_of
from voice.saying.output import MARKS, Output, chapter_marks
from voice.saying.partial import Partial
from voice.saying.progress import Shown

_LEAD_MS: Final = 250
"""A chapter's mark is so long before its first word."""


class Slots:
    """As many places as a voice has, all of one's own. ``pipelines.places.Place``."""

    def __init__(self, tts: Tts) -> None:
        slots = tts.load().slots if isinstance(tts, Measured) else 0
        self.count = slots or AHEAD
        self._free = asyncio.Semaphore(self.count)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait for one, and hold it."""
        async with self._free:
            yield


@dataclass(slots=True)
class Told:
    """What became of it: files that are there now, the one with the marks of chapters among them,
    and words that gave no sound."""

    files: int = 0
    marks: str = ""
    silent: int = 0
    first_silent: str = ""

    def add_silent(self, piece: Piece) -> None:
        """The voice gave nothing for it."""
        self.silent += 1
        self.first_silent = self.first_silent or piece.spoken


async def to_stdout(
    chapters: Sequence[Chapter], narration: Narration, tts: Tts, form: str, shown: Shown
) -> Told:
    """Say all of it to standard output, as it is made. Raises EngineError and OSError."""
    told, heard_ms = Told(), 0.0
    async with one_thread() as thread:
        encoder = Encoder(form)

        async def put(pcm: Pcm) -> None:
            nonlocal heard_ms
            heard_ms += pcm.duration_ms
            await thread.run(_write_out, await thread.run(encoder.encode, pcm))

        async def ended(piece: Piece, seam: Seam) -> None:
            nonlocal heard_ms
            if not heard_ms:
                told.add_silent(piece)
            shown.begin(chapters[piece.chapter].title)
            shown.advance(piece.done, heard_ms)
            told.files, heard_ms = int(seam.rate > 0), 0.0

        slots = Slots(tts)
        said = pieces(chapters, narration)
        await narrate(said, narration, tts, slots, put, ahead=slots.count, ended=ended)
        await thread.run(_write_out, await thread.run(encoder.finish))
    return told


def _write_out(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class FileRun:
    """To files, from where ``partial`` is."""

    def __init__(self, narration: Narration, form: str, partial: Partial, shown: Shown) -> None:
        self._narration = narration
        self._form = form
        self._partial = partial
        self._shown = shown
        self._told = Told()
        self._before = 0

    async def say(self, outputs: Sequence[Output], tts: Tts) -> Told:
        """All outputs that are not finished. Raises EngineError and OSError."""
        first = self._partial.state.outputs
        self._before = sum(size_of(output.chapters) for output in outputs[:first])
        for number, output in enumerate(outputs[first:], first):
            await self._say(number, output, tts)
            self._before += size_of(output.chapters)
        return self._told

    async def _say(self, number: int, output: Output, tts: Tts) -> None:
        partial = self._partial
        encoder = Encoder(self._form, _serial(partial.state.identity, number))
        with partial.encoded.open("w+b") as file:
            async with one_thread() as thread:
                for pcm in partial.sound():
                    file.write(await thread.run(encoder.encode, pcm))
                await self._narrate(output, tts, encoder, file, thread)
                file.write(await thread.run(encoder.finish))
            encoder.tell_length(file)
            file.flush()
            os.fsync(file.fileno())  # before it has its name
        heard = partial.state.seam.rate > 0
        if heard and len(output.chapters) > 1:
            self._write_marks(output)
        partial.output_ended(output.path if heard else None)
        self._told.files += heard

    async def _narrate(
        self, output: Output, tts: Tts, encoder: Encoder, file: BinaryIO, thread: OneThread
    ) -> None:
        partial, slots = self._partial, Slots(tts)

        async def put(pcm: Pcm) -> None:
            partial.put(pcm)
            file.write(await thread.run(encoder.encode, pcm))
            file.flush()

        async def ended(piece: Piece, seam: Seam) -> None:
            self._ended(piece, seam, output)

        spoken = (each for each in pieces(output.chapters, self._narration) if each.spoken)
        await narrate(
            islice(spoken, partial.state.pieces, None),
            self._narration,
            tts,
            slots,
            put,
            ahead=slots.count,
            joiner=Joiner(self._narration.speed, partial.state.seam),
            ended=ended,
        )

    def _ended(self, piece: Piece, seam: Seam, output: Output) -> None:
        partial = self._partial
        before, starts = partial.state.samples, partial.state.starts
        if partial.samples == before:
            self._told.add_silent(piece)
        if piece.chapter >= len(starts):
            pause_ms = piece.pause_ms / self._narration.speed if before else 0.0
            lead = round(max(0.0, pause_ms - _LEAD_MS) * seam.rate / 1000)
            starts = (*starts, before + lead)
            self._shown.begin(output.chapters[piece.chapter].title)
        sound_ms = 1000.0 * (partial.samples - before) / seam.rate if seam.rate else 0.0
        partial.piece_ended(piece.done, seam, starts)
        self._shown.advance(self._before + piece.done, sound_ms)

    def _write_marks(self, output: Output) -> None:
        rate = self._partial.state.seam.rate
        starts = [1000 * start // rate for start in self._partial.state.starts]
        titles = [chapter.title for chapter in output.chapters]
        marks = chapter_marks(titles, starts, 1000 * self._partial.samples // rate)
        path = output.path.with_name(output.path.name + MARKS)
        path.write_text(marks, "utf-8")
        self._told.marks = str(path)


def _serial(identity: Mapping[str, str], number: int) -> int:
    """Of an Ogg stream: the same for the same file, another for another."""
    return zlib.crc32(f"{sorted(identity.items())} {number}".encode())
