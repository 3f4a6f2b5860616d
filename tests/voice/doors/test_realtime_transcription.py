"""Sessions that only write down what they hear, as the stock openai package has them."""

import json
from typing import Any

import pytest
from openai.types import realtime as sdk
from pydantic import TypeAdapter
from websockets.asyncio.client import connect

from engines.scripted import AsrOptions
from tests.voice.conftest import Client

EVENTS: TypeAdapter[Any] = TypeAdapter(sdk.RealtimeServerEvent)
COMPLETED = "conversation.item.input_audio_transcription.completed"


@pytest.fixture
async def scribe(serve: Any) -> Any:
    """A transcription session, and its server."""
    server = await serve()
    url = f"ws://127.0.0.1:{server.port}/v1/realtime?intent=transcription"
    async with connect(url, proxy=None, max_queue=None) as socket:
        client = Client(socket)
        created = await client.until("session.created")
        assert created["session"]["type"] == "transcription"
        await client.until("conversation.created")
        yield client, server


def transcription(**audio_input: Any) -> dict[str, Any]:
    return {"type": "transcription", "audio": {"input": audio_input}}


async def test_each_turn_is_written_down_and_none_is_answered(scribe: Any) -> None:
    client, server = scribe
    for _ in range(2):
        await client.take_turn()
        done = await client.until(COMPLETED)
        assert done["transcript"] == AsrOptions().text
        assert done["usage"]["type"] == "duration"
    for event in client.events:
        EVENTS.validate_python(event)
    assert {"input_audio_buffer.speech_started", "input_audio_buffer.committed"} <= set(
        client.story
    )
    assert not client.all("response.created")
    assert server.llm.requests == server.tts.requests == []


async def test_the_client_may_take_the_turns_and_name_the_language(scribe: Any) -> None:
    client, server = scribe
    asked = {"model": "gpt-4o-transcribe", "language": "de", "prompt": "Zürich"}
    session = transcription(transcription=asked, turn_detection=None)
    await client.send("session.update", session=session)
    updated = (await client.until("session.updated"))["session"]
    assert updated["audio"]["input"]["transcription"] == asked
    assert updated["audio"]["input"]["turn_detection"] is None
    await client.speak(500)
    await client.send("input_audio_buffer.commit")
    await client.until(COMPLETED)
    assert not client.all("input_audio_buffer.speech_started")
    request = server.asr.requests[-1]
    assert request.language == "de"
    assert "Zürich" in request.prompt


async def test_what_only_a_conversation_has_is_refused(scribe: Any) -> None:
    client, _ = scribe
    for response in ({}, {"conversation": "none"}):
        error = await client.refusal("response.create", response=response)
        assert "transcription session" in error["message"]
    await client.take_turn()
    await client.until(COMPLETED)


async def test_what_has_no_model_is_not_told_of_one(scribe: Any) -> None:
    """pipecat's types refuse a null there, and end."""
    client, _ = scribe
    await client.send("session.update", session=transcription(transcription={}))
    updated = (await client.until("session.updated"))["session"]
    assert "null" not in json.dumps(updated["audio"]["input"]["transcription"])
