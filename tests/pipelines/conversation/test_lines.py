"""What the agent says without a model."""

from typing import get_args

import pytest

from engines.ports import ChatRequest, TextDelta, Usage
from pipelines.conversation.events import Line
from pipelines.conversation.lines import LINES, Recital, line_in


@pytest.mark.parametrize("language", LINES)
def test_every_language_has_every_line(language: str) -> None:
    assert set(LINES[language]) == set(get_args(Line))


def test_a_line_is_said_in_the_callers_language_or_in_english() -> None:
    assert line_in("de-AT", "one_moment") == "Einen Moment, bitte."
    assert line_in("DE", "one_moment") == "Einen Moment, bitte."
    for unknown in (None, "", "xx"):
        assert line_in(unknown, "one_moment") == "One moment, please."


async def test_a_recital_says_its_text_whatever_is_asked() -> None:
    recital = Recital("Hello there.")
    await recital.warm_up()
    async with recital.open(ChatRequest(())) as deltas:
        assert [delta async for delta in deltas] == [TextDelta("Hello there."), Usage()]
    await recital.close()
