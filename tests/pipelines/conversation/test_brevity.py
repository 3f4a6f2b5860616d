"""A request for less: where it stands, what it keeps, and how much it allows."""

import pytest

from engines.ports import ChatRequest, Message, Tool, ToolCall
from pipelines.conversation.brevity import BRIEFLY, briefly
from pipelines.conversation.lines import LINES

INSTRUCTIONS = Message("system", "Be kind.")
QUESTION = Message("user", "Where are you?")
EN = f"({BRIEFLY['en']})"


def test_it_stands_with_the_last_words_and_all_before_them_stays_as_it_is() -> None:
    history = (INSTRUCTIONS, Message("user", "Hello."), Message("assistant", "Hi."))
    short = briefly(ChatRequest((*history, QUESTION)), None, 80)
    assert short.messages == (*history, Message("user", f"Where are you?\n\n{EN}"))


def test_the_results_of_tools_stay_last() -> None:
    call = Message("assistant", "", (ToolCall("c", "find", "{}"),))
    result = Message("tool", "Rome", tool_call_id="c")
    short = briefly(ChatRequest((INSTRUCTIONS, QUESTION, call, result)), "en", 80)
    assert short.messages[2:] == (call, result)
    assert short.messages[1].content.endswith(EN)


def test_where_nobody_has_spoken_the_instructions_ask_for_it() -> None:
    assert briefly(ChatRequest((INSTRUCTIONS,)), None, 80).messages == (
        Message("system", f"Be kind.\n\n{EN}"),
    )
    assert briefly(ChatRequest(()), None, 80).messages == (Message("system", BRIEFLY["en"]),)


@pytest.mark.parametrize(
    ("asked", "tools", "allowed"),
    [(None, (), 80), (500, (), 80), (20, (), 20), (None, ("x",), None), (500, ("x",), 500)],
)
def test_the_tokens_are_fewer_unless_a_tool_may_be_called(
    asked: int | None, tools: tuple[str, ...], allowed: int | None
) -> None:
    request = ChatRequest((QUESTION,), tuple(map(Tool, tools)), max_tokens=asked)
    assert briefly(request, None, 80).max_tokens == allowed


@pytest.mark.parametrize(("language", "asked"), [("de-AT", "de"), ("DE", "de"), ("xx", "en")])
def test_it_is_asked_for_in_the_language_of_the_call(language: str, asked: str) -> None:
    content = briefly(ChatRequest((QUESTION,)), language, 80).messages[0].content
    assert content.endswith(f"({BRIEFLY[asked]})")


def test_it_speaks_the_languages_of_the_agent_s_own_lines() -> None:
    assert set(BRIEFLY) == set(LINES)
