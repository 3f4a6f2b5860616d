"""Doubts about a transcript: what recognisers of the Whisper kind make up, told from speech.

They loop, they say a phrase twice where the padding is short, and over noise they write what
their training set had under it ("Thank you."). The thresholds for compression, log probability
and no-speech are those of the Whisper paper's decoding (arXiv 2212.04356, section 4.5); those
for loudness and pace are ours.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from enum import Enum

import numpy as np

from engines.ports import FloatArray

# Scripts that put no spaces between words count by the character.
UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])[^\W_])+(?:['’][^\W_]+)*")

MOST_COMPRESSION = 2.4
LEAST_LOGPROB = -1.0
HOPELESS_LOGPROB = -1.5  # tells noise where the model has no no-speech probability
MOST_NO_SPEECH = 0.6
SILENT_DBFS = -60.0
SOFT_DBFS = -45.0
PACED_MS = 3000
LEAST_WORDS_A_MINUTE = 30
MOST_WORDS_A_MINUTE = 350
LOOP_ROUNDS = 4
LOOP_ROUNDS_OF_ONE_WORD = 6  # "no, no, no, no" is speech

# What the models write over hiss, hum and clicks, and what nobody says as a turn of its own.
ARTEFACTS = frozenset({"you", "thank you for watching", "thanks for watching"})
# What they write over noise as well, but callers say too.
SILENCE_PHRASES = ARTEFACTS | {"bye", "thank you", "thank you so much", "thank you very much"}


class Doubt(Enum):
    """Why a transcript is suspect."""

    SILENCE = "silence"
    LOOP = "loop"
    ECHO = "echo"
    PACE = "pace"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Heard:
    """One decoding and what is known of it. ``None`` where the model does not tell.

    ``loudness_dbfs`` is that of ``loudness_dbfs()`` over the audio.
    """

    text: str
    duration_ms: float
    loudness_dbfs: float
    avg_logprob: float | None = None
    no_speech_prob: float | None = None

    @property
    def words(self) -> list[str]:
        return [word.casefold() for word in WORD.findall(self.text)]


def doubt(heard: Heard) -> Doubt | None:
    """The gravest reason not to believe it, or None."""
    words = heard.words
    size, rounds = _longest_run(words)[1:]
    looping = _is_loop(size, rounds) or compression_ratio(heard.text) > MOST_COMPRESSION
    if _is_silence(heard, " ".join(words)) or (looping and _is_unsure(heard)):
        return Doubt.SILENCE
    if looping:
        return Doubt.LOOP
    if size > 1 and rounds > 1:
        return Doubt.ECHO
    if not _is_speakable(len(words), heard.duration_ms):
        return Doubt.PACE
    return Doubt.UNSURE if _is_unsure(heard) else None


def compression_ratio(text: str) -> float:
    """Bytes of UTF-8 over their size under zlib: above 2.4 the text repeats itself."""
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw))


def loudness_dbfs(samples: FloatArray, rate: int) -> float:
    """Level of the loudest 50 ms, in dB under full scale. ``samples`` (n,) in [-1, 1]."""
    frame = rate // 20
    whole = samples[: max(1, len(samples) // frame) * frame]
    power = np.square(whole.reshape(-1, min(frame, len(whole)))).mean(axis=1).max()
    return float(10 * np.log10(power + 1e-12))


def without_loop(text: str) -> str:
    """The text up to the end of the first round of its loop, and what follows the last."""
    places = [match.span() for match in WORD.finditer(text)]
    start, size, rounds = _longest_run([text[a:b].casefold() for a, b in places])
    if rounds < 2:
        return text
    kept = places[start + size - 1][1]
    resumed = places[start + size * rounds - 1][1]
    return (text[:kept] + text[resumed:]).strip()


def _is_silence(heard: Heard, words: str) -> bool:
    if heard.loudness_dbfs < SILENT_DBFS or not words:
        return True
    if heard.no_speech_prob is None:
        hopeless = heard.avg_logprob is not None and heard.avg_logprob < HOPELESS_LOGPROB
        return words in ARTEFACTS or hopeless or _is_soft_phrase(heard, words)
    if heard.no_speech_prob > MOST_NO_SPEECH:
        return words in SILENCE_PHRASES or _is_unsure(heard)
    return _is_soft_phrase(heard, words)


def _is_soft_phrase(heard: Heard, words: str) -> bool:
    soft = heard.loudness_dbfs < SOFT_DBFS
    return words in SILENCE_PHRASES and (soft or _is_unsure(heard))


def _is_unsure(heard: Heard) -> bool:
    return heard.avg_logprob is not None and heard.avg_logprob < LEAST_LOGPROB


def _is_loop(size: int, rounds: int) -> bool:
    return rounds >= (LOOP_ROUNDS_OF_ONE_WORD if size == 1 else LOOP_ROUNDS)


def _is_speakable(words: int, duration_ms: float) -> bool:
    pace = words * 60_000 / max(duration_ms, 1)
    return duration_ms < PACED_MS or LEAST_WORDS_A_MINUTE <= pace <= MOST_WORDS_A_MINUTE


def _longest_run(words: list[str]) -> tuple[int, int, int]:
    """(start, size, rounds) of the phrase whose unbroken repetition covers most words.

    The phrase is the shortest that repeats; rounds is 1 where nothing does.
    """
    best = (0, 1, 1)
    for size in range(1, len(words) // 2 + 1):
        same = 0
        for end in range(size, len(words)):
            same = same + 1 if words[end] == words[end - size] else 0
            rounds = same // size + 1
            if rounds > 1 and rounds * size > best[1] * best[2]:
                best = (end + 1 - rounds * size, size, rounds)
    return best
