"""What a setting takes, in words."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from voice.config_words import wanted


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "a whole number"),
        (bool, "true or false"),
        (str | None, "text"),
        (int | str, "a whole number or text"),
        (Annotated[int, Meta(ge=0, le=65_535)], "a whole number from 0 to 65535"),
        (Annotated[float, Meta(ge=0.5, le=3.0)], "a number from 0.5 to 3"),
        (Annotated[int, Meta(ge=1)] | None, "a whole number of at least 1"),
        (Annotated[float, Meta(gt=0, le=60)], "a number above 0 and of at most 60"),
        (Annotated[float, Meta(lt=1.5)], "a number below 1.5"),
        (Annotated[str, Meta(title="no bound")], "text"),
        (Literal["asked", "all"], "one of asked, all"),
        (tuple[str, ...], "a list, each of it text"),
        (tuple[float, float], "a list of 2, each of it a number"),
        (tuple[Literal["a", "b"], ...], "a list, each of it one of a, b"),
    ],
)
def test_a_type_in_words(hint: Any, words: str) -> None:
    assert wanted(hint) == words


@pytest.mark.parametrize(
    "hint", [Mapping[str, Any], Any, tuple[Any, ...], int | Mapping[str, Any], Annotated[int, "x"]]
)
def test_what_has_no_words_gets_none(hint: Any) -> None:
    assert wanted(hint) == ""
