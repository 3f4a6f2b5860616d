"""Responses out of band: beside the conversation, and not of it."""

import json
from typing import Any

import pytest
from openai.types import realtime as sdk
from pydantic import TypeAdapter

from engines.ports import Image, ToolCallDelta
from engines.scripted import SENTENCES, LlmOptions, ScriptedLlm, ScriptedTts, TtsOptions
from voice.doors.realtime_asides import MOST_ASIDES

EVENTS: TypeAdapter[Any] = TypeAdapter(sdk.RealtimeServerEvent)
TEXT = "".join(SENTENCES)
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def typed(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def test_a_response_out_of_band_is_told_and_not_remembered(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.say("Remember this.")
        client.events.clear()
        await client.send(
            "response.create",
            response={"conversation": "none", "output_modalities": ["text"],
                      "metadata": {"topic": "summary"}, "instructions": "Sum it up."},
        )  # fmt: skip
        done = (await client.until("response.done"))["response"]
        assert client.story == [
            "response.created", "response.output_item.added", "response.content_part.added",
            "response.output_text.delta", "response.output_text.done",
            "response.content_part.done", "response.output_item.done", "response.done",
        ]  # fmt: skip
        for event in client.events:
            EVENTS.validate_python(event)
        created = client.events[0]["response"]
        assert created["metadata"] == done["metadata"] == {"topic": "summary"}
        assert "conversation_id" not in done
        assert done["output"][0]["content"][0]["text"] == TEXT
        asked = server.llm.requests[-1].messages
        assert [(m.role, m.content) for m in asked] == [
            ("system", "Sum it up."), ("user", "Remember this.")]  # fmt: skip
        await client.send("response.create")
        done = (await client.until("response.done"))["response"]
        assert done["conversation_id"]
    assert [m.content for m in server.llm.requests[-1].messages[1:]] == ["Remember this."]


async def test_it_may_be_spoken_while_the_conversation_goes_on(serve: Any) -> None:
    """Speech stops the reply that can be heard, and not what was asked for beside it."""
    server = await serve(tts=ScriptedTts(TtsOptions(item_delay_ms=5)))
    async with server.call() as client:
        await client.say("Hello.")
        await client.send("response.create", response={"conversation": "none", "input": []})
        aside = (await client.until("response.created"))["response"]["id"]
        await client.send("response.create")
        reply = (await client.until("response.created"))["response"]["id"]
        await client.until("response.output_audio.delta")
        await client.speak(1_000)
        ends = {}
        while len(ends) < 2:
            done = (await client.until("response.done"))["response"]
            ends[done["id"]] = done["status"]
        assert ends == {aside: "completed", reply: "cancelled"}
        said = [e for e in client.all("response.output_audio.delta") if e["response_id"] == aside]
        assert said


async def test_it_is_cancelled_by_its_id_alone(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(hang_after=14)))
    async with server.call() as client:
        await client.send("response.create", response={"conversation": "none", "input": [],
                                                       "output_modalities": ["text"]})  # fmt: skip
        aside = (await client.until("response.created"))["response"]["id"]
        await client.until("response.output_text.delta")
        error = await client.refusal("response.cancel")
        assert error["code"] == "response_cancel_not_active"
        await client.send("response.cancel", response_id=aside)
        done = (await client.until("response.done"))["response"]
        assert (done["id"], done["status"]) == (aside, "cancelled")
        assert done["output"][0]["status"] == "incomplete"


async def test_there_may_be_a_few_at_once(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(hang_after=0)))
    aside = {"conversation": "none", "input": []}
    async with server.call() as client:
        for _ in range(MOST_ASIDES):
            await client.send("response.create", response=aside)
        error = await client.refusal("response.create", response=aside)
        assert error["code"] == "too_many_active_responses"
        first = client.all("response.created")[0]["response"]["id"]
        await client.send("response.cancel", response_id=first)
        await client.until("response.done")
        await client.send("response.create", response=aside)
        await client.until("response.created")


async def test_its_input_is_all_that_it_reads(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        known = await client.say("Known.")
        await client.say("Not to be read.")
        await client.send("response.create", response={
            "conversation": "none", "instructions": "Classify.", "max_output_tokens": 3,
            "tools": [{"type": "function", "name": "f"}], "tool_choice": "none",
            "input": [{"type": "item_reference", "id": known["id"]}, typed("New.")],
        })  # fmt: skip
        done = (await client.until("response.done"))["response"]
        assert (done["status"], done["status_details"]["reason"]) == (
            "incomplete", "max_output_tokens")  # fmt: skip
    request = server.llm.requests[-1]
    assert [m.content for m in request.messages] == ["Classify.", "Known.", "New."]
    assert (request.max_tokens, request.tools[0].name, request.tool_choice) == (3, "f", "none")


async def test_a_response_of_the_conversation_may_have_an_input_too(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.say("Not to be read.")
        await client.send("response.create", response={"input": [typed("Only this.")]})
        done = (await client.until("response.done"))["response"]
        assert done["conversation_id"]
        item = done["output"][0]["id"]
        await client.send("conversation.item.retrieve", item_id=item)
        assert (await client.until("conversation.item.retrieved"))["item"]["id"] == item
        assert [m.content for m in server.llm.requests[-1].messages[1:]] == ["Only this."]
        await client.send("response.create")
        await client.until("response.done")
    assert [m.content for m in server.llm.requests[-1].messages[1:]] == ["Not to be read.", TEXT]


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        ({"type": "item_reference", "id": "gone"}, "item_reference_invalid_item_id", "[1].id"),
        ({"type": "item_reference", "id": "twice"}, "item_create_duplicate_item_id", "[1].id"),
        (
            {"type": "message", "role": "user",
             "content": [{"type": "input_image", "image_url": PICTURE}]},
            "invalid_value", "[1].content[0].image_url",
        ),
    ],
)  # fmt: skip
async def test_an_input_that_cannot_be_read_is_refused(
    serve: Any, item: dict[str, Any], code: str, param: str
) -> None:
    server = await serve()
    async with server.call() as client:
        await client.say("x", id="twice")
        error = await client.refusal("response.create", response={
            "conversation": "none", "input": [typed("x") | {"id": "twice"}, item]})  # fmt: skip
        assert (error["code"], error["param"]) == (code, f"response.input{param}")
        await client.send("response.create")
        await client.until("response.done")


async def test_tools_may_be_called_side_by_side(serve: Any) -> None:
    """Beside the conversation and in it; results may come in any order."""
    script = (ToolCallDelta(0, "a", "weather", "{}"), ToolCallDelta(1, "b", "time", "{}"))
    server = await serve(llm=ScriptedLlm(LlmOptions(script=script)))
    async with server.call() as client:
        for response in ({"conversation": "none", "input": []}, {}):
            await client.send("response.create", response=response)
            done = (await client.until("response.done"))["response"]
            assert [item["call_id"] for item in done["output"]] == ["a", "b"]
        for kind in ("response.output_item.added", "conversation.item.added"):
            for event in client.all(
                kind
            ):  # the JS SDK runs what is completed, and would do so twice
                assert (event["item"]["status"], event["item"]["arguments"]) == ("in_progress", "")
        client.events.clear()
        for call in ("b", "a"):
            result = {"type": "function_call_output", "call_id": call, "output": f"of {call}"}
            await client.send("conversation.item.create", item=result)
        await client.send("response.create")
        done = (await client.until("response.done"))["response"]
        assert done["output"][0]["content"][0]["transcript"] == TEXT
    called, *results = server.llm.requests[-1].messages[1:]
    assert [call.id for call in called.tool_calls] == ["a", "b"]
    assert [(m.tool_call_id, m.content) for m in results] == [("a", "of a"), ("b", "of b")]


async def test_a_model_that_sees_is_shown_the_pictures(serve: Any) -> None:
    llm = ScriptedLlm()
    server = await serve(llm=llm)
    server.llm.sees_images = True
    content = [{"type": "input_text", "text": "What is this?"},
               {"type": "input_image", "image_url": PICTURE, "detail": "low"}]  # fmt: skip
    item = {"type": "message", "role": "user", "content": content}
    async with server.call() as client:
        await client.send("conversation.item.create", item=item)
        told = (await client.until("conversation.item.done"))["item"]
        assert told["content"] == content
        await client.send("response.create")
        await client.until("response.done")
        (message,) = server.llm.requests[-1].messages[1:]
        assert message.images == (Image(PICTURE, "low"),)
        for url in ("https://example.com/cat.png", "data:text/html;base64,AAAA",
                    "data:image/png;base64,A"):  # fmt: skip
            content[1]["image_url"] = url
            error = await client.refusal("conversation.item.create", item=item)
            assert error["param"] == "item.content[1].image_url"
    assert PICTURE not in json.dumps([repr(message)])


async def test_a_key_with_a_limit_is_told_of_it(serve: Any) -> None:
    server = await serve("tenants.acme.keys=theirs", "tenants.acme.requests_per_minute=3")
    headers = {"Authorization": "Bearer theirs"}
    async with server.call(additional_headers=headers) as client:
        await client.say("Hello.")
        left = []
        for response in ({}, {"conversation": "none", "input": []}, {}):
            await client.send("response.create", response=response)
            (limit,) = (await client.until("rate_limits.updated"))["rate_limits"]
            assert (limit["name"], limit["limit"]) == ("requests", 3)
            assert 0 < limit["reset_seconds"] <= 60
            left.append(limit["remaining"])
        assert left == [2, 1, 0]
        asked = len(server.llm.requests)
        for response in ({}, {"conversation": "none", "input": []}):
            await client.send("response.create", response=response)
            done = (await client.until("response.done"))["response"]
            assert (done["status"], done["status_details"]["error"]["code"]) == (
                "failed", "rate_limited")  # fmt: skip
            assert done["status_details"]["error"]["message"].startswith("This key asks for 3 ")
        assert len(server.llm.requests) == asked
