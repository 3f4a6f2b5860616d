"""Orpheus's token arithmetic: text ids in a frame of control tokens, audio ids as SNAC codes.

Orpheus is a Llama 3 whose vocabulary goes on after 128,256 text tokens with ``<custom_token_0>``
and so on. The first ten of those are marks; from the eleventh on they are audio: seven tokens a
frame, each place of the frame with 4096 ids of its own, so that an id tells its place. Source:
canopyai/Orpheus-TTS, ``engine_class.py`` and ``decoder.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from engines.tokens.ports import SlotGrammar

RATE: Final = 24_000
FRAME_TOKENS: Final = 7
FRAME_SAMPLES: Final = 2048
FRAME_S: Final = FRAME_SAMPLES / RATE
TOKENS_PER_S: Final = FRAME_TOKENS / FRAME_S
"""82.03: what a model must make for one voice in real time."""

CUSTOM_TOKEN_0: Final = 128_256
STOP: Final = 128_258
FIRST_AUDIO: Final = 128_266
CODES: Final = 4096
VOCABULARY: Final = 156_940
_HUMAN: Final = 128_259
_AFTER_TEXT: Final = (128_009, 128_260, 128_261, 128_257)

GRAMMAR: Final = SlotGrammar(FIRST_AUDIO, FRAME_TOKENS, CODES, STOP)

Frame: TypeAlias = tuple[int, ...]
"""Seven codes of 0 to 4095, in the order in which they were generated."""


def prompt_ids(text_ids: Iterable[int]) -> tuple[int, ...]:
    """The prompt around ``text_ids``, which are ``voice: text`` as the tokenizer encodes it,
    with its own beginning-of-text token."""
    return (_HUMAN, *text_ids, *_AFTER_TEXT)


def ids_of(frame: Sequence[int]) -> tuple[int, ...]:
    """A frame's codes as token ids."""
    return tuple(FIRST_AUDIO + place * CODES + code for place, code in enumerate(frame))


def seed_of(*parts: object) -> int:
    """A seed for whatever ``parts`` name: the same for the same, of 31 bits, since that is what
    every server takes."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(errors="replace"), digest_size=4)
    return int.from_bytes(digest.digest()) & 0x7FFF_FFFF


class FrameParser:
    """Tokens in, whole frames out, however the tokens are cut into chunks.

    An audio token says by its id which place of a frame it has. One that does not fit breaks the
    frame it arrived in, and the next token of place 0 begins another: what is lost is that frame,
    never the alignment of what follows. ``broken`` counts those frames, ``misplaced`` the audio
    tokens outside any frame, ``foreign`` the tokens that are no audio at all.
    """

    def __init__(self) -> None:
        self.broken = 0
        self.misplaced = 0
        self.foreign = 0
        self._codes: list[int] = []

    def feed(self, tokens: Iterable[int]) -> list[Frame]:
        """The frames that ``tokens`` complete."""
        frames = []
        for token in tokens:
            place, code = divmod(token - FIRST_AUDIO, CODES)
            if not 0 <= place < FRAME_TOKENS:
                self.foreign += 1
                continue
            self._take(place, code)
            if len(self._codes) == FRAME_TOKENS:
                frames.append(tuple(self._codes))
                self._codes.clear()
        return frames

    def finish(self) -> None:
        """No more will come: a frame that is not whole is broken."""
        self.broken += bool(self._codes)
        self._codes.clear()

    def _take(self, place: int, code: int) -> None:
        if place != len(self._codes):
            self.broken += bool(self._codes)
            self._codes.clear()
        if place == len(self._codes):
            self._codes.append(code)
        else:
            self.misplaced += 1
