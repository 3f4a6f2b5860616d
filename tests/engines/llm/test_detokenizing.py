"""Whatever the tokens are, the text is that of all of them, and no character comes in halves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.llm.detokenizing import Detokenizer


def as_bytes(ids: list[int]) -> str:
    """A tokenizer of single bytes; 256 and above are special, and not shown."""
    return bytes(token for token in ids if token < 256).decode(errors="replace")


def pieces_of(ids: list[int], step: int = 1) -> list[str]:
    words = Detokenizer(as_bytes)
    pieces = [words.feed(ids[at : at + step]) for at in range(0, len(ids), step)]
    return [*pieces, words.finish()]


@given(st.text(), st.integers(1, 5))
def test_the_pieces_are_the_text_and_each_is_whole(text: str, step: int) -> None:
    pieces = pieces_of(list(text.encode()), step)
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces if "\ufffd" not in text)


def test_a_character_comes_with_its_last_byte() -> None:
    assert pieces_of(list("a€😀b".encode())) == [
        "a", "", "", "€", "", "", "", "😀", "b", "",
    ]  # fmt: skip


def test_special_tokens_hold_nothing_up() -> None:
    ids = [256] * 9 + list("é".encode()) + [300, 300, 300, 300] + list("ü".encode())
    assert [piece for piece in pieces_of(ids) if piece] == ["é", "ü"]


def test_what_stays_broken_comes_all_the_same() -> None:
    assert "".join(pieces_of([*b"ab", 0xE2, 0x82])) == "ab\ufffd"
    assert "".join(pieces_of([0xFF] * 9 + [*b"ok"])).endswith("ok")


def test_a_tokenizer_that_spells_by_context_is_asked_in_context() -> None:
    """As of SentencePiece: a word's space is dropped where it comes first."""
    vocabulary = [" the", " cat", " sat"]
    words = Detokenizer(lambda ids: "".join(vocabulary[token] for token in ids).removeprefix(" "))
    assert "".join(words.feed([token % 3]) for token in range(60)) == " ".join(
        vocabulary[token % 3].strip() for token in range(60)
    )


@pytest.mark.parametrize("length", [100, 10_000])
def test_each_token_costs_the_same_however_long_the_answer_is(length: int) -> None:
    decoded = []

    def decode(ids: list[int]) -> str:
        decoded.append(len(ids))
        return as_bytes(ids)

    words = Detokenizer(decode)
    for _ in range(length):
        words.feed([120])
    assert max(decoded) <= 17
    assert len(decoded) < 1.1 * length
