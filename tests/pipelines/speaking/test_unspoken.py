"""What is not for the ear, however the text is cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.speaking.unspoken import Prose

CASES = [
    ("Look:\n```python\nx = 1\n```\nDone.", "Look:\nA block of code.\nDone."),
    ("~~~\nx\n```\n~~~\ny", "A block of code.\ny"),
    ("````\n```\n````\ny", "A block of code.\ny"),
    ("- ```\n  x\n  ```\n- y", "A block of code.\n- y"),
    ("```never closed\nx", "A block of code.\n"),
    ("Use ```inline``` code.", "Use ```inline``` code."),
    ("```one line```\ny", "```one line```\ny"),
    ("a <!-- b --> c <!-- d\ne --> f", "a  c  f"),
    ("a <!-- b", "a "),
    ("<think>Hm.\nSo.</think>Yes.", "Yes."),
    ("  <thinking>\nHm.\n</thinking>\nYes.", "\nYes."),
    ("The `<think>` tag, a <think>, and `<!--`.", "The `<think>` tag, a <think>, and `<!--`."),
    ("<tool_call>{}</tool_call>", ""),
]


@pytest.mark.parametrize(("text", "prose"), CASES)
def test_only_prose_is_given(text: str, prose: str) -> None:
    assert Prose().feed(text) == prose


@given(st.sampled_from(CASES), st.sets(st.integers(0, 40)))
def test_lines_may_come_in_pieces(case: tuple[str, str], cuts: set[int]) -> None:
    text, whole = case
    ends = [0, *sorted(cut for cut in cuts if text[cut - 1 : cut] == "\n"), len(text)]
    prose = Prose()
    pieces = [text[a:b] for a, b in pairwise(ends)]
    assert "".join(map(prose.feed, pieces)) == whole


def test_the_rest_of_a_fence_may_come_later() -> None:
    prose = Prose()
    assert prose.feed("\n```python title:") == "\nA block of code.\n"
    assert not prose.at_line_start
    assert prose.feed(" x\n```\n") == ""
    assert prose.at_line_start
    assert prose.feed("```\n") == "A block of code.\n"


@pytest.mark.parametrize(("language", "mention"), [("de-AT", "Ein Stück Code.\n"), ("cy", "\n")])
def test_code_is_mentioned_in_the_language_of_the_reply(language: str, mention: str) -> None:
    assert Prose(language).feed("```\nx\n```") == mention
