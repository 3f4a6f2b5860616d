"""What every bot of the comparison hears and says: the script of ``engines.scripted``.

Told again here with nothing but the standard library, since a peer's bot runs in an environment
of its own, without this project; ``tests/loadtest/peers/test_script.py`` holds the two together.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from typing import Final

IN_RATE: Final = 16_000
"""What the callers of a peer send: Silero's own rate, so that it need not resample."""

OUT_RATE: Final = 24_000
CHUNK_SAMPLES: Final = OUT_RATE * 40 // 1000
SAMPLES_PER_WORD: Final = OUT_RATE // 12
SILENCE_S: Final = 0.2
"""The silence that ends a turn, for all."""

PATH: Final = "/v1/realtime"
HEARD: Final = "please tell me something about this server"
ANSWER: Final = (
    "The scripted model answers every question with the very same three sentences."
    " Each of them has twelve words and takes one second to say."
    " Nothing in here thinks, so all you measure is the server itself."
)
TOKENS: Final = tuple(
    word if index == 0 else f" {word}" for index, word in enumerate(ANSWER.split(" "))
)


def _tone() -> bytes:
    samples = (
        round(0.05 * 32_768 * math.sin(2 * math.pi * 300 * at / OUT_RATE))
        for at in range(CHUNK_SAMPLES)
    )
    return array("h", samples).tobytes()


TONE: Final = _tone()
"""16-bit audio of one chunk, 40 ms."""


def speech(text: str) -> Iterator[bytes]:
    """A quiet tone as long as the words of ``text`` would take, a chunk at a time."""
    words = sum(any(map(str.isalnum, word)) for word in text.split())
    whole, rest = divmod(words * SAMPLES_PER_WORD, CHUNK_SAMPLES)
    for _ in range(whole):
        yield TONE
    if rest:
        yield TONE[: 2 * rest]
