"""``diarized_json`` of OpenAI's transcriptions: what was said, by whom.

Source: https://platform.openai.com/docs/api-reference/audio/diarized-json-object
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from string import ascii_uppercase

from msgspec import Struct

from engines.diarization.turns import SpeakerTurn
from pipelines.speakers import by_speaker
from pipelines.transcription.captions import Spoken, Utterance
from voice.wire.audio_api import Duration, TextSegment, text_of


class TranscriptionDiarized(Struct):
    """``diarized_json``. Segments are in order of time, each of one speaker."""

    task: str
    duration: float
    text: str
    segments: list[TextSegment]
    usage: Duration


def pieces_of(heard: Iterable[Utterance], turns: Iterable[SpeakerTurn]) -> list[Spoken]:
    """All that was said in pieces of one speaker each."""
    return by_speaker((each for utterance in heard for each in utterance.spoken), turns)


def diarized_answer(
    heard: Sequence[Utterance], duration_ms: int, turns: Iterable[SpeakerTurn]
) -> TranscriptionDiarized:
    """All that was heard, by speaker."""
    seconds = duration_ms / 1000
    segments = diarized_segments(heard, turns)
    return TranscriptionDiarized("transcribe", seconds, text_of(heard), segments, Duration(seconds))


def diarized_segments(
    heard: Iterable[Utterance], turns: Iterable[SpeakerTurn]
) -> list[TextSegment]:
    """Its segments. Speakers are called as OpenAI calls them: A, B and so on, as they appear; who
    is near nobody's turn, goes by the empty name."""
    letters, numbers = dict[str, str]({"": ""}), count()
    segments = []
    for number, piece in enumerate(pieces_of(heard, turns)):
        if piece.speaker not in letters:
            letters[piece.speaker] = _letter(next(numbers))
        times = piece.start_ms / 1000, piece.end_ms / 1000
        segments.append(TextSegment(f"seg_{number}", *times, piece.text, letters[piece.speaker]))
    return segments


def _letter(number: int) -> str:
    """A to Z, then AA, AB and so on."""
    rest, place = divmod(number, len(ascii_uppercase))
    return (_letter(rest - 1) if rest else "") + ascii_uppercase[place]
