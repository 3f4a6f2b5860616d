"""What is said and what is called, however the answer is cut into pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.llm.tool_calls import AnswerText, as_template_message, as_template_tool
from engines.ports import Delta, EngineError, Message, TextDelta, Tool, ToolCall, ToolCallDelta

HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
LLAMA = '{"name": "weather", "parameters": {"city": "Köln"}}'


def read(text: str, tools=("weather",), step: int = 1) -> list[Delta]:
    answer = AnswerText("chat", tools)
    deltas: list[Delta] = []
    for at in range(0, len(text), step):
        deltas.extend(answer.feed(text[at : at + step]))
    return [*deltas, *answer.finish()]


def said(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def called(deltas: list[Delta]) -> list[tuple[int, str, dict]]:
    return [
        (delta.index, delta.name, json.loads(delta.arguments))
        for delta in deltas
        if isinstance(delta, ToolCallDelta)
    ]


steps = pytest.mark.parametrize("step", [1, 2, 7, 1000])


@steps
def test_a_call_is_not_said(step: int) -> None:
    deltas = read(f"Let me look.\n{HERMES}", step=step)
    assert said(deltas) == "Let me look."
    assert called(deltas) == [(0, "weather", {"city": "Köln"})]


@steps
def test_calls_are_counted_and_told_apart(step: int) -> None:
    deltas = read(f"{HERMES}\n{HERMES} And so?", step=step)
    assert [index for index, _, _ in called(deltas)] == [0, 1]
    ids = [delta.id for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert len(set(ids)) == 2
    assert all(ids)
    assert said(deltas) == " And so?"


@steps
def test_an_answer_that_is_one_object_may_be_a_call(step: int) -> None:
    deltas = read(f" {LLAMA}\n", step=step)
    assert called(deltas) == [(0, "weather", {"city": "Köln"})]
    assert said(deltas) == ""


@pytest.mark.parametrize(
    "text", ['{"name": "other", "parameters": {}}', '{"a": 1}', "{hello} there", "{", '["x"]']
)
@steps
def test_an_object_that_is_no_call_is_said(text: str, step: int) -> None:
    assert read(text, step=step)
    assert said(read(text, step=step)) == text


@steps
def test_an_end_that_is_missing_at_the_end_is_not_missed(step: int) -> None:
    assert called(read(HERMES.removesuffix("</tool_call>"), step=step))


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>nonsense</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        "<tool_call>[]</tool_call>",
        '<tool_call>{"name": "weath',
    ],
)
def test_a_call_that_cannot_be_read_is_told_and_not_said(text: str) -> None:
    with pytest.raises(EngineError, match="cannot be read") as caught:
        read(text)
    assert caught.value.code == "bad_response"


def test_without_tools_all_is_said_at_once() -> None:
    answer = AnswerText("chat", ())
    assert list(answer.feed("{<tool_call>")) == [TextDelta("{<tool_call>")]


def test_what_only_looks_like_a_call_is_said() -> None:
    assert said(read("1 < 2, <tool> and <tool_cal")) == "1 < 2, <tool> and <tool_cal"


@given(st.text(alphabet="ab <tol_cal>\n", max_size=40), st.integers(1, 9))
def test_text_comes_whole_but_for_the_space_at_its_end(text: str, step: int) -> None:
    if "<tool_call>" in text:
        return
    assert said(read(text, step=step)).rstrip() == text.rstrip()


def test_arguments_may_be_text_or_missing() -> None:
    as_text = '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Bonn\\"}"}</tool_call>'
    assert called(read(as_text)) == [(0, "weather", {"city": "Bonn"})]
    assert called(read('<tool_call>{"name": "weather"}</tool_call>')) == [(0, "weather", {})]


# --- what templates read --------------------------------------------------------------------


def test_a_template_gets_arguments_as_an_object() -> None:
    message = Message("assistant", "", (ToolCall("c1", "weather", '{"city": "Bonn"}'),))
    (call,) = as_template_message(message)["tool_calls"]
    assert call == {
        "id": "c1",
        "type": "function",
        "function": {"name": "weather", "arguments": {"city": "Bonn"}},
    }


def test_arguments_that_are_no_object_stay_as_they_are() -> None:
    message = Message("assistant", "", (ToolCall("c1", "weather", "{city"),))
    (call,) = as_template_message(message)["tool_calls"]
    assert call["function"]["arguments"] == "{city"


def test_an_answer_of_a_tool_names_its_call() -> None:
    assert as_template_message(Message("tool", "12 degrees", tool_call_id="c1")) == {
        "role": "tool",
        "content": "12 degrees",
        "tool_call_id": "c1",
    }


def test_a_tool_without_parameters_takes_none() -> None:
    function = as_template_tool(Tool("time"))["function"]
    assert function["parameters"] == {"type": "object", "properties": {}}


def test_a_call_that_nests_without_end_is_unreadable_and_no_bug():
    text = AnswerText("llm", ["f"])
    with pytest.raises(EngineError, match="cannot be read") as caught:
        list(text.feed('<tool_call>{"name": "f", "arguments": ' + "[" * 5000 + "</tool_call>"))
    assert caught.value.code == "bad_response"
    text = AnswerText("llm", ["f"])
    written = '{"name": "f", "arguments": ' + "[" * 5000
    assert [*text.feed(written), *text.finish()] == [TextDelta(written)]


def test_arguments_that_nest_without_end_go_to_the_template_as_they_are():
    call = ToolCall("1", "f", "[" * 5000)
    body = as_template_message(Message("assistant", "", (call,)))
    assert body["tool_calls"][0]["function"]["arguments"] == "[" * 5000
