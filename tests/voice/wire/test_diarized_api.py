"""``diarized_json``: its shape is OpenAI's."""

import msgspec
from openai.types.audio import TranscriptionDiarized as Theirs

from engines.diarization.turns import SpeakerTurn
from engines.ports import Segment
from pipelines.transcription.captions import Utterance
from voice.wire.audio_api import to_json
from voice.wire.diarized_api import diarized_answer, diarized_segments, pieces_of


def heard(*said: tuple[str, int, int]) -> list[Utterance]:
    return [Utterance(text, (Segment(text, start, end),), "en", "") for text, start, end in said]


TWO = heard(("How are you?", 0, 900), ("Fine. And you?", 1000, 3000))
TURNS = [SpeakerTurn("Speaker 1", 0, 900), SpeakerTurn("Speaker 2", 1000, 3000)]


def test_the_stock_client_finds_all_that_it_looks_for():
    body = to_json(diarized_answer(TWO, 3_000, TURNS))
    theirs = Theirs.model_validate_json(body, strict=True)
    assert theirs.text == "How are you? Fine. And you?"
    assert theirs.duration == 3.0
    assert theirs.usage is not None
    assert theirs.usage.type == "duration"
    assert [(each.speaker, each.text, each.start, each.end) for each in theirs.segments] == [
        ("A", "How are you?", 0.0, 0.9),
        ("B", "Fine. And you?", 1.0, 3.0),
    ]
    assert theirs.model_dump(exclude_none=True).keys() == msgspec.json.decode(body).keys()


def test_segments_are_numbered_and_letters_are_given_as_speakers_appear():
    turns = [SpeakerTurn("x", 1000, 3000), SpeakerTurn("y", 0, 900)]
    segments = diarized_segments(TWO, turns)
    assert [(each.id, each.speaker) for each in segments] == [("seg_0", "A"), ("seg_1", "B")]


def test_who_is_near_nobodys_turn_has_no_letter():
    segments = diarized_segments([*TWO, *heard(("Hello?", 9_000, 9_500))], TURNS)
    assert [each.speaker for each in segments] == ["A", "B", ""]


def test_after_z_comes_aa():
    said = heard(*((f"{n}.", 1000 * n, 1000 * n + 500) for n in range(30)))
    turns = [SpeakerTurn(f"s{n}", 1000 * n, 1000 * n + 500) for n in range(30)]
    letters = [each.speaker for each in diarized_segments(said, turns)]
    assert letters[:2] == ["A", "B"]
    assert letters[24:] == ["Y", "Z", "AA", "AB", "AC", "AD"]


def test_pieces_are_of_one_speaker_each():
    both = heard(("How are you? Fine.", 0, 1_800))
    turns = [SpeakerTurn("1", 0, 1_250), SpeakerTurn("2", 1_250, 1_800)]
    assert [(piece.speaker, piece.text) for piece in pieces_of(both, turns)] == [
        ("1", "How are you?"),
        ("2", "Fine."),
    ]
