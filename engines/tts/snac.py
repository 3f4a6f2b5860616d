"""Frames of many voices in, their samples out, each sample as soon as it is exact.

A frame depends on what comes up to 4757 samples after it, so the first exact audio comes with
the third frame: 1387 samples (58 ms) after 21 tokens, then a frame for each frame, and the last
4757 samples at the end without further tokens. A decoder that is ``early`` gives the first 2048
samples (85 ms) after two frames (14 tokens) instead, decoded as if the voice ended there, and
goes on exactly from the next one. With random weights such an opening differs from the exact one
by -42 dB of its power; what other openings cost is shown by ``python -m loadtest.snac_bench``.
Tokens must then come at twice the speed of speech, or the opening ends before the rest is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from engines.ports import EngineError
from engines.tts.snac_cuda import CudaStep
from engines.tts.snac_layers import (
    CODES,
    COLUMNS,
    END,
    FRAME,
    LATENTS,
    LEVELS,
    NO_END,
    SEED,
    SOURCE,
    TARGET,
    StreamingSnac,
)
from engines.tts.snac_streams import SnacStream, SnacStreams
from engines.tts.snac_weights import load_snac, random_snac

if TYPE_CHECKING:
    import snac

__all__ = ["SnacDecoder", "SnacStream", "SnacStreams", "load_snac", "random_snac"]

Codes: TypeAlias = Sequence[int] | NDArray[np.int64]
"""The 7 codes of a frame, t0 to t6 in the order of Orpheus, each below the codebook's size."""
Audio: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.int64]

CODES_OF_A_FRAME: Final = 7
_BY_LATENT: Final = np.array([[0, 1, 2], [0, 1, 3], [0, 4, 5], [0, 4, 6]])
"""Which of a frame's codes each latent is the sum of: one per level, coarse to fine."""

EARLY_FRAMES: Final = 2
EARLY_SAMPLES: Final = 2048


@dataclass(slots=True)
class _Voice:
    """One stream: how far it is. ``end``: its frames, known once they are all there."""

    seed: int
    frame: int = 0
    end: int = NO_END
    sent: int = 0


class SnacDecoder:
    """Decodes voices frame by frame, any of them together in one step.

    A voice holds a slot; what it sounds like depends on its seed and its frames, not on what
    else is decoded with it. ``step`` is for one thread; ``open`` and ``close`` may be called
    from another. ``noise`` False leaves the decoder's noise out, as parity needs. On a GPU each
    size of batch has a CUDA graph of its own, unless ``graphs`` is False; ``compiled`` puts
    torch.compile before that. The samples have the model's dtype. Raises ValueError for a model
    that cannot be streamed.
    """

    sample_rate: Final = 24_000
    frame_samples: Final = 2048
    delay_samples: Final = 4757

    def __init__(
        self,
        model: snac.SNAC,
        *,
        slots: int,
        device: str | torch.device = "cpu",
        noise: bool = True,
        early: bool = False,
        compiled: bool = False,
        graphs: bool = True,
    ) -> None:
        if slots < 1:
            raise ValueError(f"a decoder needs at least one slot, got {slots}")
        core = StreamingSnac(model, noise=noise).to(device).eval()
        if (core.frame_samples, core.delay_samples) != (self.frame_samples, self.delay_samples):
            raise ValueError(
                f"this SNAC has frames of {core.frame_samples} samples and a delay of "
                f"{core.delay_samples}: only the one for 24 kHz (2048 and 4757) is understood"
            )
        self.slots = slots
        self.early = early
        self._codebook_size = core.codebook_size
        self._free = list(reversed(range(slots)))
        self._voices: dict[int, _Voice] = {}
        # A spare row for what a batch is padded with, and rows for openings that go no further.
        count = slots + 1 + (slots if early else 0)
        width, dtype = sum(core.state_sizes), core.latents.dtype
        states = torch.zeros(count, width, device=device, dtype=dtype)
        self._run = _step_on(core, states, slots, compiled=compiled, graphs=graphs)

    @property
    def open_slots(self) -> int:
        """How many voices there are now."""
        return len(self._voices)

    def open(self, seed: int) -> int:
        """A slot for a new voice, whose noise is that of ``seed``.

        Raises EngineError (``unavailable``) where none is free.
        """
        if not self._free:
            raise EngineError(
                "snac",
                "unavailable",
                f"all {self.slots} slots are taken: admit fewer callers, or give it more slots",
            )
        slot = self._free.pop()
        self._voices[slot] = _Voice(seed)
        return slot

    def close(self, slot: int) -> None:
        """Give the slot back. Raises ValueError where it is not open."""
        if self._voices.pop(slot, None) is None:
            raise ValueError(f"slot {slot} is not open: it was closed before, or never opened")
        self._free.append(slot)

    def check(self, frame: Codes) -> NDArray[np.int64]:
        """The codes as an array (7,). Raises ValueError where they are no frame."""
        codes = np.asarray(frame)
        if codes.shape != (CODES_OF_A_FRAME,) or codes.dtype.kind not in "iu":
            raise ValueError(f"a frame is {CODES_OF_A_FRAME} whole numbers, got {frame!r}")
        if codes.min() < 0 or codes.max() >= self._codebook_size:
            raise ValueError(f"codes go from 0 to {self._codebook_size - 1}, got {frame!r}")
        return codes.astype(np.int64)

    def step(self, slots: Sequence[int], frames: Sequence[Codes | None]) -> list[Audio]:
        """Decode one frame of each slot: the samples (any number, in [-1, 1]) that are due now.

        None instead of a frame says that the voice has ended; each further None gives more of
        what is left, ``tail_steps`` of them all of it. Raises ValueError, before anything is
        changed, for a slot that is not open or comes twice, for codes that are none, and for a
        frame after the end.
        """
        voices = self._voices_of(slots, frames)
        if not voices:
            return []
        rows = np.zeros((len(voices), COLUMNS), np.int64)
        for row, slot, voice, frame in zip(rows, slots, voices, frames, strict=True):
            self._instruct(row, slot, voice, frame)
        for voice, frame in zip(voices, frames, strict=True):
            if frame is None and voice.end == NO_END:
                voice.end = voice.frame
        rows[:, END] = [voice.end for voice in voices]
        audio = self._run(rows, self._steady(rows))
        for voice in voices:
            voice.frame += 1
        due = [self._due(voice, heard) for voice, heard in zip(voices, audio, strict=True)]
        if self.early:
            self._add_openings(rows, voices, due)
        return due

    @property
    def tail_steps(self) -> int:
        """How many steps without a frame give the rest of a voice."""
        return -(-self.delay_samples // self.frame_samples)

    def _voices_of(self, slots: Sequence[int], frames: Sequence[Codes | None]) -> list[_Voice]:
        if len(slots) != len(frames):
            raise ValueError(f"{len(slots)} slots need as many frames, got {len(frames)}")
        if len(set(slots)) != len(slots):
            raise ValueError(f"a slot may come once in a step, got {list(slots)}")
        closed = [slot for slot in slots if slot not in self._voices]
        if closed:
            raise ValueError(f"slots {closed} are not open: open a slot for each voice")
        voices = [self._voices[slot] for slot in slots]
        for slot, voice, frame in zip(slots, voices, frames, strict=True):
            if frame is not None and voice.end != NO_END:
                raise ValueError(f"the voice in slot {slot} has ended: open a slot for the next")
        return voices

    def _instruct(self, row: Rows, slot: int, voice: _Voice, frame: Codes | None) -> None:
        row[[SOURCE, TARGET, FRAME]] = slot, slot, voice.frame
        row[SEED:CODES] = voice.seed & 0xFFFFFFFF, voice.seed >> 32 & 0xFFFFFFFF
        if frame is not None:
            levels = self.check(frame)[_BY_LATENT] + self._codebook_size * np.arange(LEVELS)
            row[CODES:] = levels.reshape(LATENTS * LEVELS)

    def _steady(self, rows: Rows) -> bool:
        begun = rows[:, FRAME].min() * self.frame_samples >= self.delay_samples
        return bool(begun and rows[:, END].min() == NO_END)

    def _due(self, voice: _Voice, heard: Audio) -> Audio:
        """Of the samples of its last step, those inside the voice that were not sent yet."""
        until = voice.frame * self.frame_samples - self.delay_samples
        start = until - self.frame_samples
        since, until = voice.sent, min(until, voice.end * self.frame_samples)
        if until <= since:
            return heard[:0].copy()
        voice.sent = until
        return heard[since - start : until - start].copy()

    def _add_openings(self, rows: Rows, voices: list[_Voice], due: list[Audio]) -> None:
        """Give voices that have two frames their opening, decoded to its end beside them."""
        places = [
            place
            for place, voice in enumerate(voices)
            if voice.frame == EARLY_FRAMES and voice.end == NO_END
        ]
        if not places:
            return
        rows = rows[places]
        rows[:, END] = EARLY_FRAMES
        rows[:, TARGET] += self.slots + 1
        pieces = []
        reached = -(-(EARLY_SAMPLES + self.delay_samples) // self.frame_samples)
        for frame in range(EARLY_FRAMES, reached):
            rows[:, FRAME] = frame
            pieces.append(self._run(rows, False))
            rows[:, SOURCE] = rows[:, TARGET]
        start = EARLY_FRAMES * self.frame_samples - self.delay_samples
        openings = np.concatenate(pieces, axis=1)[:, -start : EARLY_SAMPLES - start]
        for place, opening in zip(places, openings, strict=True):
            voices[place].sent = EARLY_SAMPLES
            due[place] = opening.copy()


def _step_on(
    core: StreamingSnac, states: torch.Tensor, spare: int, **how: bool
) -> Callable[[Rows, bool], Any]:
    if states.is_cuda:
        return CudaStep(core, states, spare, **how)
    if how["compiled"]:
        core.compile(fullgraph=True)

    @torch.inference_mode()
    def run(rows: Rows, steady: bool) -> Any:
        return core(states, torch.from_numpy(rows), steady).numpy()

    return run
