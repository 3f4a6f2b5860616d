"""Doubts about a transcript: what recognisers of the Whisper kind make up, told from speech.

They loop, they say a phrase twice where the padding is short, and over noise they write what
their training set had under it ("Thank you."). The thresholds for compression, log probability
and no-speech are those of the Whisper paper's decoding (arXiv 2212.04356, section 4.5); those
for loudness, contrast and pace are ours.
"""

from __future__ import annotations

import math
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
# How far a voice rises and falls: 13 dB or more in a quiet room, 9.6 or more over noise 5 dB below
# it. Eight people or more at once come to 4 to 10, and what recognisers make of them repeats itself
# or is unsure; hiss and hum come to 2. The evener a sound, the surer its words must be: this line
# parts all of 280 readings of crowds from all but one of 118 of speech 5 dB over noise; of speech
# 2 dB over noise it costs a third of what is understood at all.
EVEN_DB = 4.0
SHORT_DB = 8.0
RATHER_EVEN_DB = 10.0
UNEVEN_DB = 12.0
SURE_LOGPROB = -0.5  # needed at RATHER_EVEN_DB
SURER_A_DB = 0.08
CONTRAST_MS = 1000
GAP_DB = 20.0
PACED_MS = 3000
LEAST_WORDS_A_MINUTE = 30
MOST_WORDS_A_MINUTE = 350
LOOP_ROUNDS = 4
LOOP_ROUNDS_OF_ONE_WORD = 6  # "no, no, no, no" is speech

# What the models write over hiss, hum and clicks, and what nobody says as a turn of its own.
ARTEFACTS = frozenset({"you", "thank you for watching", "thanks for watching"})
# What they write over noise as well, but callers say too.
SILENCE_PHRASES = ARTEFACTS | {"bye", "thank you", "thank you so much", "thank you very much"}

# What Moonshine makes of a crowd when it is sure of itself.
MURMURS = SILENCE_PHRASES | {"hm", "hmm", "mm", "mm hm", "mm hmm", "mmm", "oh", "uh", "um", "yeah"}


class Doubt(Enum):
    """Why a transcript is suspect."""

    SILENCE = "silence"
    NOISE = "noise"
    LOOP = "loop"
    ECHO = "echo"
    PACE = "pace"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Sound:
    """What the ear knows before any word: ``loudness_dbfs()`` and ``contrast_db()`` of a clip."""

    duration_ms: float
    loudness_dbfs: float
    contrast_db: float = math.inf

    @classmethod
    def of(cls, samples: FloatArray, rate: int) -> Sound:
        """Of ``samples`` (n,) in [-1, 1]."""
        duration_ms = 1000 * len(samples) / rate
        return cls(duration_ms, loudness_dbfs(samples, rate), contrast_db(samples, rate))

    @property
    def doubt(self) -> Doubt | None:
        """Why no word in it could be believed, or None."""
        if self.loudness_dbfs < SILENT_DBFS:
            return Doubt.SILENCE
        return Doubt.NOISE if self.contrast_db < EVEN_DB else None


@dataclass(frozen=True, slots=True)
class Heard:
    """One decoding and what is known of it. ``None`` where the model does not tell."""

    text: str
    sound: Sound
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
    if _is_noise(heard, repeats=looping or (size > 1 and rounds > 1)):
        return Doubt.NOISE
    if looping:
        return Doubt.LOOP
    if size > 1 and rounds > 1:
        return Doubt.ECHO
    if not _is_speakable(len(words), heard.sound.duration_ms):
        return Doubt.PACE
    return Doubt.UNSURE if _is_unsure(heard) else None


def compression_ratio(text: str) -> float:
    """Bytes of UTF-8 over their size under zlib: above 2.4 the text repeats itself."""
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw))


def loudness_dbfs(samples: FloatArray, rate: int) -> float:
    """Level of the loudest 50 ms, in dB under full scale. ``samples`` (n,) in [-1, 1]."""
    return float(_levels_db(samples, rate // 20).max())


def contrast_db(samples: FloatArray, rate: int) -> float:
    """How far the loud moments of ``samples`` (n,) rise over the soft ones: from the 10th to the
    95th of a hundred frames of 20 ms. The silence before and behind does not count, but a second
    does: words are short, and noise goes on. Of less than that, which may be one vowel, it is
    ``SHORT_DB`` at least.
    """
    levels = _levels_db(samples, rate // 50)
    sounding = np.flatnonzero(levels > levels.max() - GAP_DB)
    first, last = int(sounding[0]), int(sounding[-1]) + 1
    least = CONTRAST_MS // 20
    first = max(0, min(first - max(0, least - (last - first)) // 2, len(levels) - least))
    counted = levels[first : max(last, first + least)]
    low, high = np.percentile(counted, [10, 95])
    return float(high - low) if len(counted) >= least else max(float(high - low), SHORT_DB)


def without_loop(text: str) -> str:
    """The text up to the end of the first round of its loop, and what follows the last."""
    places = [match.span() for match in WORD.finditer(text)]
    start, size, rounds = _longest_run([text[a:b].casefold() for a, b in places])
    if rounds < 2:
        return text
    kept = places[start + size - 1][1]
    resumed = places[start + size * rounds - 1][1]
    return (text[:kept] + text[resumed:]).strip()


def _levels_db(samples: FloatArray, frame: int) -> FloatArray:
    """The level of each frame in dB under full scale; samples that fill none are left out."""
    whole = samples[: max(1, len(samples) // frame) * frame]
    power = np.square(whole.reshape(-1, min(frame, len(whole)))).mean(axis=1)
    levels: FloatArray = 10 * np.log10(power + 1e-12)
    return levels


def _is_silence(heard: Heard, words: str) -> bool:
    if heard.sound.doubt is Doubt.SILENCE or not words:
        return True
    if heard.no_speech_prob is None:
        hopeless = heard.avg_logprob is not None and heard.avg_logprob < HOPELESS_LOGPROB
        return words in ARTEFACTS or hopeless or _is_soft_phrase(heard, words)
    if heard.no_speech_prob > MOST_NO_SPEECH:
        return words in SILENCE_PHRASES or _is_unsure(heard)
    return _is_soft_phrase(heard, words)


def _is_soft_phrase(heard: Heard, words: str) -> bool:
    soft = heard.sound.loudness_dbfs < SOFT_DBFS
    return words in SILENCE_PHRASES and (soft or _is_unsure(heard))


def _is_noise(heard: Heard, *, repeats: bool) -> bool:
    contrast = heard.sound.contrast_db
    if contrast < RATHER_EVEN_DB and (repeats or " ".join(heard.words) in MURMURS):
        return True
    needed = SURE_LOGPROB + SURER_A_DB * (RATHER_EVEN_DB - contrast)
    doubtful = heard.avg_logprob is not None and heard.avg_logprob < needed
    return contrast < EVEN_DB or (contrast < UNEVEN_DB and doubtful)


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
