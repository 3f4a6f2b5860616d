"""The JSON of chat completions, in and out."""

import json

import pytest

from engines.llm.chat_wire import AnswerReader, request_body, stream_error, upstream_message
from engines.ports import (
    ChatRequest,
    EngineError,
    Image,
    Message,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)


def body_of(request, **settings):
    settings = {"max_tokens_name": "max_tokens", "defaults": {}} | settings
    return json.loads(request_body(request, "m", **settings))


def sse(*chunks):
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def choice(finish_reason=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def read(data):
    answer = AnswerReader()
    return [*answer.feed(data), *answer.finish(), answer.usage()]


def test_a_plain_request_asks_for_a_stream_with_usage():
    assert body_of(ChatRequest((Message("system", "Be brief."), Message("user", "Hi")))) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_the_request_goes_before_the_defaults():
    request = ChatRequest((), max_tokens=5, temperature=0.0)
    body = body_of(request, defaults={"temperature": 1.0, "max_tokens": 9, "top_p": 0.5})
    assert (body["temperature"], body["max_tokens"], body["top_p"]) == (0.0, 5, 0.5)


def test_the_token_limit_goes_by_the_name_that_the_endpoint_knows():
    body = body_of(ChatRequest((), max_tokens=5), max_tokens_name="max_completion_tokens")
    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body


def test_tool_calls_and_their_results_are_told():
    call = ToolCall("call_1", "weather", '{"city":"Paris"}')
    request = ChatRequest(
        (Message("assistant", "", (call,)), Message("tool", "sunny", tool_call_id="call_1"))
    )
    asked, answered = body_of(request)["messages"]
    assert asked["content"] is None
    assert asked["tool_calls"] == [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city":"Paris"}'},
        }
    ]
    assert answered == {"role": "tool", "content": "sunny", "tool_call_id": "call_1"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("weather", {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_tools_are_offered_with_the_choice(choice, sent):
    tool = Tool("weather", "Tells the weather.", {"type": "object", "properties": {"city": {}}})
    body = body_of(ChatRequest((), tools=(tool, Tool("now")), tool_choice=choice))
    assert body["tool_choice"] == sent
    assert body["tools"][0]["function"] == {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {}}},
    }
    assert body["tools"][1]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_text_is_streamed_and_usage_comes_last():
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    data = sse(
        choice(role="assistant", content=""),
        choice(content="Hel"),
        choice(content="lo"),
        choice("stop"),
        {"choices": [], "usage": usage},
    )
    assert read(data + b"data: [DONE]\n\n") == [
        TextDelta("Hel"),
        TextDelta("lo"),
        Usage(9, 2, 4, "stop"),
    ]


def test_parallel_tool_calls_keep_apart():
    def piece(index, **function):
        head = {"id": function.pop("id")} if "id" in function else {}
        return {"index": index, "function": function, **head}

    data = sse(
        choice(tool_calls=[piece(0, id="a", name="f", arguments="")]),
        choice(tool_calls=[piece(0, arguments='{"x"'), piece(1, id="b", name="g")]),
        choice("tool_calls", tool_calls=[piece(0, arguments=":1}")]),
    )
    assert read(data) == [
        ToolCallDelta(0, "a", "f", ""),
        ToolCallDelta(0, "", "", '{"x"'),
        ToolCallDelta(1, "b", "g", ""),
        ToolCallDelta(0, "", "", ":1}"),
        Usage(0, 0, 0, "tool_calls"),
    ]


def test_what_servers_leave_out_or_null_is_met_with_patience():
    data = sse(
        {"id": "x", "choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": None, "refusal": "No."}}], "usage": None},
        {"choices": [{"delta": {"tool_calls": [{"id": "a", "function": None}]}}]},
        {"choices": None, "usage": {"prompt_tokens": None, "prompt_tokens_details": None}},
    )
    data = b"data:\n\n" + data + b"data: [DONE]"
    assert read(data) == [
        TextDelta("No."),
        ToolCallDelta(0, "a"),
        Usage(),
    ]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty"),
        (b"data: [DONE]\n\n", "empty"),
        (sse(choice("stop")), "empty"),
        (sse(choice("length", content="")), "empty"),
        (sse(choice(content="Hel")), "bad_response"),
        (b"<html>hello</html>", "bad_response"),
        (b"data: {oops\n\n", "bad_response"),
        (b"data: \xff\xfe\n\n", "bad_response"),
        (b'data: {"choices": 7}\n\n', "bad_response"),
        (b'data: {"error": ' + b"[" * 100_000 + b"\n\n", "bad_response"),
        (b"x" * 1_100_000, "bad_response"),
        (sse({"error": {"message": "boom", "code": 500}}), "unavailable"),
        (sse({"error": {"message": "boom", "code": 429}}), "rate_limited"),
        (sse({"error": {"message": "boom", "code": "oom"}}), "failed"),
        (sse({"error": "boom"}), "failed"),
    ],
)
def test_a_stream_that_is_no_answer_is_an_error(data, code):
    with pytest.raises(EngineError) as caught:
        read(data)
    assert caught.value.code == code


def test_an_error_inside_a_stream_says_what_the_endpoint_said():
    assert "boom" in stream_error({"message": "boom"}).message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "model not found"}}', "model not found"),
        (b'{"error": "model not found"}', "model not found"),
        (b'{"object": "error", "message": "too\\n long"}', "too long"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b"<h1>Bad gateway</h1>", "<h1>Bad gateway</h1>"),
        (b"", "no reason given"),
        (b"\xff", "\ufffd"),
        (b"x" * 1000, "x" * 300),
        (b"[" * 100_000, "[" * 300),
    ],
)
def test_the_upstream_message_is_found(body, said):
    assert upstream_message(body) == said


def test_pictures_are_parts_of_a_message():
    pictures = (Image("data:image/png;base64,AA==", "low"), Image("data:image/png;base64,AQ=="))
    request = ChatRequest((Message("user", "What?", images=pictures),))
    assert body_of(request)["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What?"},
                {
                    "type": "image_url",
                    "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"},
                },
                {
                    "type": "image_url",
                    "image_url": {"url": "data:image/png;base64,AQ==", "detail": "auto"},
                },
            ],
        }
    ]
    silent = ChatRequest((Message("user", "", images=pictures[:1]),))
    (message,) = body_of(silent)["messages"]
    assert [part["type"] for part in message["content"]] == ["image_url"]


def test_one_call_at_a_time_is_asked_for_only_where_it_is_wanted():
    request = ChatRequest((Message("user", "Hi"),), (Tool("f"),), parallel_tools=False)
    assert body_of(request)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body_of(ChatRequest((), (Tool("f"),)))
    assert "parallel_tool_calls" not in body_of(ChatRequest((), parallel_tools=False))
