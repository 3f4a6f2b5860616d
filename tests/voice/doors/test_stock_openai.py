"""The stock openai package as a caller: it needs no more than this server's address."""

import base64
import json
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from openai import AsyncOpenAI, AuthenticationError
from openai.types import realtime as sdk

from engines.models import ModelMissing, ModelStore
from engines.scripted import SENTENCES, AsrOptions, LlmOptions, ScriptedLlm
from engines.vad import silero
from tests.voice.doors.stock import TYPES, stock_call

TEXT = "".join(SENTENCES)
RATE = 24_000


@pytest.fixture(scope="module")
def models() -> ModelStore:
    return ModelStore()


@pytest.fixture
def vad(vad: Any, models: ModelStore) -> Any:
    """The real one where its model is there, with the slots in sight."""
    try:
        real = silero.create(silero.Options(), models)
    except ModelMissing:
        return vad
    slots: set[int] = set()

    class Watched:
        rate, window_samples, step = silero.RATE, silero.WINDOW, staticmethod(real.step)

        def open(self) -> int:
            slot = real.open()
            slots.add(slot)
            return slot

        def close(self, slot: int) -> None:
            slots.remove(slot)
            real.close(slot)

    watched = Watched()
    watched.slots = slots  # type: ignore[attr-defined]
    return watched


@pytest.fixture
def speech(models: ModelStore) -> bytes:
    """A recording where there is one, else a mere sound; and the silence that ends the turn."""
    try:
        folder = models.path("speech")
    except ModelMissing:
        spoken = np.full(RATE, 8_000, np.int16)
    else:
        name = min(json.loads((folder / "transcripts.json").read_bytes()))
        samples, rate = soundfile.read(folder / name, dtype="int16")
        spoken = soxr.resample(samples[: 3 * rate], rate, RATE)
    return np.concatenate([spoken, np.zeros(RATE, np.int16)]).tobytes()


async def test_a_spoken_turn(serve: Any, speech: bytes) -> None:
    server = await serve()
    async with stock_call(server) as connection:
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Be brief.",
                "audio": {"input": {"turn_detection": {"type": "server_vad"}}},
            }
        )
        for start in range(0, len(speech), 960):
            audio = base64.b64encode(speech[start : start + 960]).decode()
            await connection.input_audio_buffer.append(audio=audio)
        events = []
        async for event in connection:
            events.append(event)
            if event.type == "response.done":
                break
    assert isinstance(events[0], sdk.SessionCreatedEvent)
    assert isinstance(events[0].session, sdk.RealtimeSessionCreateRequest)
    assert isinstance(events[1], sdk.ConversationCreatedEvent)
    for event in events[2:]:
        assert type(event) is TYPES[event.type]
    assert {event.type for event in events[2:]} == set(TYPES)
    by_type = {event.type: event for event in events}
    completed = by_type["conversation.item.input_audio_transcription.completed"]
    assert completed.transcript == AsrOptions().text
    assert completed.usage.type == "duration"
    response = by_type["response.done"].response
    assert response.status == "completed"
    assert response.output[0].content[0].transcript == TEXT
    deltas = [event.delta for event in events if event.type == "response.output_audio.delta"]
    assert sum(len(base64.b64decode(delta)) for delta in deltas) == 3 * 2 * RATE
    assert server.llm.requests[-1].messages[0].content == "Be brief."


async def test_typed_words_and_a_written_answer(serve: Any) -> None:
    server = await serve()
    async with stock_call(server) as connection:
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        content = [{"type": "input_text", "text": "What is this?"}]
        item = {"type": "message", "role": "user", "content": content}
        await connection.conversation.item.create(item=item)
        await connection.response.create()
        said = ""
        async for event in connection:
            if event.type == "response.output_text.delta":
                assert isinstance(event, sdk.ResponseTextDeltaEvent)
                said += event.delta
            elif event.type == "response.done":
                break
    assert said == TEXT


async def test_a_response_that_is_cancelled_and_a_mistake(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(hang_after=12)))
    async with stock_call(server) as connection:
        await connection.response.create()
        async for event in connection:
            if event.type == "response.output_audio.delta":
                await connection.response.cancel()
                await connection.conversation.item.truncate(
                    item_id=event.item_id, content_index=0, audio_end_ms=100
                )
                await connection.conversation.item.delete(item_id="nothing", event_id="mine")
            elif event.type == "response.done":
                assert event.response.status == "cancelled"
                assert event.response.status_details.reason == "client_cancelled"
            elif event.type == "error":
                break
    assert isinstance(event, sdk.RealtimeErrorEvent)
    assert event.error.code == "item_delete_invalid_item_id"
    assert event.error.event_id == "mine"


async def test_the_models_and_a_wrong_key(serve: Any) -> None:
    server = await serve("server.api_keys=right")
    base_url = f"http://127.0.0.1:{server.port}/v1"
    async with AsyncOpenAI(api_key="right", base_url=base_url) as client:
        models = [model.id async for model in client.models.list()]
    assert models == list(server.house.models)
    async with AsyncOpenAI(api_key="wrong", base_url=base_url) as client:
        with pytest.raises(AuthenticationError, match="Incorrect API key"):
            await client.models.list()
    async with stock_call(server, "right") as connection:
        assert (await connection.recv()).type == "session.created"
