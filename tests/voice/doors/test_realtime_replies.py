"""Responses: spoken, written, with functions, failed; alone and two at once."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engines.llm import openai
from engines.ports import ToolCallDelta
from engines.scripted import (
    SENTENCES,
    LlmOptions,
    ScriptedLlm,
    ScriptedTts,
    TtsOptions,
    tokens_of,
)

TEXT = "".join(SENTENCES)
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CALLS_WEATHER = LlmOptions(
    script=(ToolCallDelta(0, "call_1", "weather", '{"city":'), ToolCallDelta(0, arguments='"Rom"}'))
)


async def test_a_spoken_answer_to_typed_words(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.say("What is this?")
        client.events.clear()
        await client.send("response.create")
        response = (await client.until("response.done"))["response"]
        await client.until("rate_limits.updated")
    assert client.story[0] == "response.created"
    assert client.all("response.created")[0]["response"]["status"] == "in_progress"
    assert response["output_modalities"] == ["audio"]
    assert response["status_details"] == {"type": "completed"}
    assert response["usage"]["output_tokens"] == 36
    assert response["output"][0]["content"] == [{"type": "output_audio", "transcript": TEXT}]
    assert len(client.audio) == 3 * 2 * 24_000
    assert [m.content for m in server.llm.requests[0].messages][1:] == ["What is this?"]


async def test_a_written_answer_to_typed_words(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.update(output_modalities=["text"])
        await client.say("What is this?")
        client.events.clear()
        await client.send("response.create")
        response = (await client.until("response.done"))["response"]
        await client.until("rate_limits.updated")
    assert client.story == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
        "rate_limits.updated",
    ]
    assert client.all("response.content_part.added")[0]["part"] == {"type": "text", "text": ""}
    deltas = client.all("response.output_text.delta")
    assert "".join(event["delta"] for event in deltas) == TEXT
    assert len(deltas) == 36
    assert client.all("response.output_text.done")[0]["text"] == TEXT
    assert response["output"][0]["content"] == [{"type": "output_text", "text": TEXT}]
    assert server.tts.requests == []


async def test_one_response_may_do_as_its_session_does_not(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        asked = {
            "output_modalities": ["text"],
            "instructions": "Be rude.",
            "metadata": {"topic": "manners"},
            "max_output_tokens": 5,
        }
        await client.send("response.create", response=asked)
        first = (await client.until("response.done"))["response"]
        await client.send("response.create")
        second = (await client.until("response.done"))["response"]
    assert client.all("response.created")[0]["response"]["metadata"] == {"topic": "manners"}
    assert first["metadata"] == {"topic": "manners"}
    assert first["max_output_tokens"] == 5
    assert (first["status"], first["status_details"]["reason"]) == (
        "incomplete",
        "max_output_tokens",
    )
    assert "metadata" not in second
    assert second["output_modalities"] == ["audio"]
    rude, usual = server.llm.requests
    assert rude.messages[0].content == "Be rude."
    assert usual.messages[0].content == server.house.config.agent.instructions


async def test_a_function_is_called_and_its_result_is_spoken_of(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(CALLS_WEATHER))
    async with server.call() as client:
        await client.update(tools=[WEATHER], tool_choice="required")
        client.events.clear()
        await client.send("response.create")
        response = (await client.until("response.done"))["response"]
        await client.until("rate_limits.updated")
        story = client.story
        result = {"type": "function_call_output", "call_id": "call_1", "output": '{"c":30}'}
        await client.send("conversation.item.create", item=result)
        created = (await client.until("conversation.item.done"))["item"]
        await client.send("response.create")
        answer = (await client.until("response.done"))["response"]
    assert story == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
        "rate_limits.updated",
    ]
    (done,) = client.all("response.function_call_arguments.done")
    assert (done["name"], done["call_id"]) == ("weather", "call_1")
    assert json.loads(done["arguments"]) == {"city": "Rom"}
    (call,) = response["output"]
    assert (call["type"], call["status"]) == ("function_call", "completed")
    assert created["type"] == "function_call_output"
    assert answer["status"] == "completed"
    first, second = server.llm.requests
    assert [tool.name for tool in first.tools] == ["weather"]
    assert first.tool_choice == "required"
    called, told = second.messages[-2:]
    assert called.tool_calls[0].arguments == '{"city":"Rom"}'
    assert (told.role, told.content, told.tool_call_id) == ("tool", '{"c":30}', "call_1")


async def test_words_before_a_function_are_told_whole_before_it(serve: Any) -> None:
    script = (*tokens_of("Let me look."), *CALLS_WEATHER.script)
    server = await serve(llm=ScriptedLlm(LlmOptions(script=script)))
    async with server.call() as client:
        await client.send("response.create")
        response = (await client.until("response.done"))["response"]
    message, call = response["output"]
    assert message["content"][0]["transcript"] == "Let me look."
    assert (message["status"], call["type"]) == ("completed", "function_call")
    added = [event["output_index"] for event in client.all("response.output_item.added")]
    done = [event["output_index"] for event in client.all("response.output_item.done")]
    assert added == done == [0, 1]
    assert client.story.count("response.output_audio.done") == 1
    first_done = client.story.index("response.output_item.done")
    assert "response.output_audio.done" in client.story[:first_done]
    assert "response.function_call_arguments.done" in client.story[first_done:]


async def test_a_second_response_at_once_is_refused(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(hang_after=5)))
    async with server.call() as client:
        await client.send("response.create")
        active = (await client.until("response.created"))["response"]["id"]
        error = await client.refusal("response.create", event_id="mine")
        await client.send("response.cancel", response_id=active)
        done = await client.until("response.done")
    assert error["code"] == "conversation_already_has_active_response"
    assert active in error["message"]
    assert error["event_id"] == "mine"
    assert done["response"]["status"] == "cancelled"
    assert done["response"]["status_details"]["reason"] == "client_cancelled"
    assert len(client.all("response.created")) == 1


async def test_there_is_nothing_to_cancel(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        none = await client.refusal("response.cancel", event_id="mine")
        wrong = await client.refusal("response.cancel", response_id="resp_other")
    assert none["code"] == wrong["code"] == "response_cancel_not_active"
    assert none["message"].startswith("Cancellation failed")
    assert none["event_id"] == "mine"
    assert "param" not in none
    assert wrong["param"] == "response_id"
    assert "resp_other" in wrong["message"]


async def test_another_response_than_the_active_one_is_not_cancelled(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(hang_after=5)))
    async with server.call() as client:
        await client.send("response.create")
        await client.until("response.created")
        error = await client.refusal("response.cancel", response_id="resp_other")
        await client.send("response.cancel")
        done = await client.until("response.done")
    assert error["code"] == "response_cancel_not_active"
    assert done["response"]["status"] == "cancelled"


# --- failures -------------------------------------------------------------------------------


async def assert_fails_then_works(server: Any, code: str, said: str = "") -> dict[str, Any]:
    """A turn whose response fails without a spoken word, and the next turn, which works."""
    async with server.call() as client:
        await client.take_turn()
        failed = (await client.until("response.done"))["response"]
        sound_of_failed = len(client.audio)
        await client.take_turn()
        done = (await client.until("response.done"))["response"]
    assert failed["status"] == "failed"
    assert failed["status_details"]["type"] == "failed"
    assert failed["status_details"]["error"]["code"] == code
    assert (sound_of_failed > 0, done["status"]) == (bool(said), "completed")
    return failed


@pytest.mark.parametrize("code", ["unavailable", "timeout", "unauthorized", "rate_limited"])
async def test_a_model_that_fails_is_no_spoken_word(serve: Any, code: str) -> None:
    llm = ScriptedLlm(LlmOptions(fail_code=code, fail_times=1))
    server = await serve("turns.speculate=false", llm=llm)
    failed = await assert_fails_then_works(server, code)
    assert failed["output"] == []
    assert "unset fail_code" in failed["status_details"]["error"]["message"]


async def test_a_model_that_fails_midway_leaves_what_was_said(serve: Any) -> None:
    options = LlmOptions(fail_code="bad_response", fail_times=1, fail_after=20)
    server = await serve("turns.speculate=false", llm=ScriptedLlm(options))
    failed = await assert_fails_then_works(server, "bad_response", said="some words")
    (item,) = failed["output"]
    assert item["status"] == "incomplete"


async def test_a_voice_that_fails(serve: Any) -> None:
    tts = ScriptedTts(TtsOptions(fail_code="failed", fail_times=1))
    server = await serve("turns.speculate=false", tts=tts)
    await assert_fails_then_works(server, "failed")


# --- a real endpoint that misbehaves --------------------------------------------------------

CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hello there."}, "finish_reason": None}]}
LAST = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
STREAM = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in (CHUNK, LAST)) + "data: [DONE]\n\n"


@asynccontextmanager
async def endpoint(*answers: tuple[int, str]) -> AsyncIterator[str]:
    """A chat completions endpoint that gives these answers, the last one for ever; a status of 0
    is no answer at all."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.splitlines()
            if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        status, body = left.pop(0) if len(left) > 1 else left[0]
        if status:
            kind = "text/event-stream" if status == 200 else "application/json"
            writer.write(
                f"HTTP/1.1 {status} So\r\nContent-Type: {kind}\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            await writer.drain()
        else:
            await reader.read()  # until the client gives up
        writer.close()
        await writer.wait_closed()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, '{"error":{"message":"Wrong key."}}', "unauthorized"),
        (429, '{"error":{"message":"Slow down."}}', "rate_limited"),
        (500, "<html>Sorry</html>", "unavailable"),
        (200, "data: {not json\n\n", "bad_response"),
        (200, "data: [DONE]\n\n", "empty"),
        (200, "", "empty"),
        (0, "", "timeout"),
    ],
)
async def test_an_endpoint_that_misbehaves_costs_one_turn(
    serve: Any, status: int, body: str, code: str
) -> None:
    async with endpoint((status, body), (200, STREAM)) as url:
        llm = openai.create(options_for(url), None)
        server = await serve("turns.speculate=false", llm=llm)
        failed = await assert_fails_then_works(server, code)
        await llm.close()
    assert failed["status_details"]["error"]["message"]


async def test_an_endpoint_that_is_down_costs_one_turn(serve: Any) -> None:
    async with endpoint((200, STREAM)) as url:
        pass
    llm = openai.create(options_for(url), None)
    server = await serve(llm=llm)
    async with server.call() as client:
        await client.take_turn()
        failed = (await client.until("response.done"))["response"]
        assert failed["status_details"]["error"]["code"] == "unavailable"
        assert client.audio == b""
        await client.say("sync")
    await llm.close()


def options_for(url: str) -> openai.Options:
    return openai.Options(base_url=url, model="some", retries=0, first_token_timeout_s=0.2)
