"""What is said in one go, and the silence before it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import chapters
from pipelines.narration.pieces import Narration, Piece, pieces, size_of
from pipelines.narration.settings import NarrationSettings


def planned(text: str, **how: object) -> list[Piece]:
    every = pieces(chapters(blocks(text)), Narration(**how))  # type: ignore[arg-type]
    return [piece for piece in every if piece.spoken]


def said(text: str, **how: object) -> list[tuple[int, str]]:
    return [(piece.pause_ms, piece.spoken) for piece in planned(text, **how)]


def test_pauses_are_by_what_is_on_both_sides() -> None:
    text = (
        "# One\n\nA sentence. Another one.\n\nA paragraph.\n\n- an item\n- an item\n\nText.\n\n"
        "***\n\n## Within\n\nText.\n\n# Two\n\nText."
    )
    assert said(text) == [
        (0, "One."),
        (1000, "A sentence."),
        (400, "Another one."),
        (800, "A paragraph."),
        (800, "an item."),
        (400, "an item."),
        (800, "Text."),
        (1500, "Within."),
        (1000, "Text."),
        (2000, "Two."),
        (1000, "Text."),
    ]


def test_settings_name_the_pauses() -> None:
    settings = NarrationSettings(sentence_ms=1, paragraph_ms=2)
    assert [pause for pause, _ in said("It ended. It began.\n\nDone.", settings=settings)] == [
        0,
        1,
        2,
    ]


def test_a_sentence_is_whole_unless_it_lasts_too_long() -> None:
    long = (
        "This is a sentence with a comma in the middle of it, and " + "with many words " * 10 + "."
    )
    first, *rest = said(f"He spoke, and went on, and on. {long}")
    assert first == (0, "He spoke, and went on, and on.")
    assert rest[0] == (400, "This is a sentence with a comma in the middle of it,")
    assert rest[1][0] == 180
    short = NarrationSettings(piece_s=3.0)
    cut = said("Words and words and words and words and words and words of it.", settings=short)
    assert [pause for pause, _ in cut] == [0, 50]


def test_who_listens_has_a_short_first_phrase() -> None:
    text = "When the evening came, he went home by the old road. It was late."
    assert [pause for pause, _ in said(text, live=True)] == [0, 180, 400]
    assert len(said(text)) == 2


def test_what_was_wrapped_is_not_cut_and_a_line_of_its_own_ends() -> None:
    assert said("It was a dark and stormy night, and the rain\nfell in torrents.") == [
        (0, "It was a dark and stormy night, and the rain fell in torrents.")
    ]
    assert said("Milk\nEggs") == [(0, "Milk."), (400, "Eggs.")]
    assert said("今天天气很好")[0][1] == "今天天气很好"


def test_what_is_not_to_be_said_is_no_piece_and_costs_no_pause() -> None:
    assert said("---\n\n***\n\n<!-- no -->\n") == []
    assert said("One.\n\n![](x.png)\n\nTwo.") == [(0, "One."), (800, "Two.")]
    assert said("```\nx = 1\n```")[0][1] == "A block of code."


def test_chapters_are_counted_and_so_is_what_is_done() -> None:
    found = chapters(blocks("# A\n\nOne.\n\n# B\n\nTwo."))
    planned = list(pieces(found, Narration()))
    assert [piece.chapter for piece in planned] == [0, 0, 1, 1]
    assert planned[-1].done == size_of(found) - 1  # but for the last line's end
    assert all(a.done < b.done for a, b in pairwise(planned))


def test_no_piece_is_longer_than_a_voice_can_hold() -> None:
    settings = NarrationSettings()
    for text in ("x" * 100_000, "word " * 5_000, "字" * 5_000, "a, " * 5_000, "ملح " * 3_000):
        found = planned(text)
        assert found
        assert max(len(piece.spoken) for piece in found) <= settings.most_characters + 1
        assert max(len(piece.spoken.split()) for piece in found) <= settings.most_words


@given(st.lists(st.sampled_from(["word", "end.", "comma,", "\n", "\n\n", "# ", "- ", "***"])))
def test_every_word_is_said_once(parts: list[str]) -> None:
    text = " ".join(parts)
    spoken = " ".join(piece.spoken for piece in planned(text))
    for word in ("word", "end", "comma"):
        assert spoken.count(word) == text.count(word)
