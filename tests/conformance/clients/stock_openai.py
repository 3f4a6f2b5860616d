"""The openai package (Python): its own connection, its own types."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from typing import Any

import openai.types.realtime as sdk
from openai import AsyncOpenAI
from pydantic import TypeAdapter
from steps import (
    ANSWER,
    HEARD,
    HTTP,
    KEY,
    MODEL,
    STORY,
    TYPED,
    WEATHER,
    Microphone,
    Noted,
    check,
    main,
    speech,
    step,
)

EVENT: TypeAdapter[Any] = TypeAdapter(sdk.RealtimeServerEvent)
TOOL = {"type": "function", "name": "weather", "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}  # fmt: skip
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def typed(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


@asynccontextmanager
async def connected(key: str = KEY, **asked: Any) -> Any:
    """A connection, what it has told, and the caller's microphone."""
    client = AsyncOpenAI(api_key=key, base_url=f"{HTTP}/v1")
    options = {"proxy": None}
    async with client.realtime.connect(websocket_connection_options=options, **asked) as connection:
        noted = Noted()

        async def send(audio: bytes) -> None:
            encoded = base64.b64encode(audio).decode()
            await connection.input_audio_buffer.append(audio=encoded)

        microphone = Microphone(send)

        async def listen() -> None:
            async for event in connection:
                EVENT.validate_python(event.model_dump(exclude_unset=True))  # strict, unlike it
                noted.add(event.type, event)

        tasks = [asyncio.create_task(each) for each in (listen(), microphone.run())]
        try:
            await noted.wait("session.created", 0)
            yield connection, noted, microphone
        finally:
            for task in tasks:
                task.cancel()


async def spoken_turn(connection: Any, noted: Noted, microphone: Microphone) -> None:
    with step("spoken turn") as told:
        await connection.session.update(
            session={"type": "realtime", "instructions": "Be brief.", "tools": [TOOL]}
        )
        await noted.wait("session.updated", 0)
        mark = noted.mark()
        microphone.say(speech())
        words = await noted.wait("conversation.item.input_audio_transcription.completed", mark)
        check(words.transcript == HEARD, f"heard {words.transcript!r}")
        done = await noted.wait("response.done", mark)
        check(done.response.status == "completed", f"it is {done.response.status}")
        check(noted.since(mark, "response.output_audio.delta"), "no audio came")
        check(noted.since(mark, "rate_limits.updated"), "no rate limits came")
        told.append(done.response.output[0].content[0].transcript)


async def barge_in(connection: Any, noted: Noted, microphone: Microphone) -> None:
    with step("barge-in") as told:
        mark = noted.mark()
        await connection.conversation.item.create(item=typed(STORY))
        await connection.response.create()
        delta = await noted.wait("response.output_audio.delta", mark)
        await asyncio.sleep(0.8)
        microphone.say(speech())
        await noted.wait("input_audio_buffer.speech_started", mark)
        done = await noted.wait("response.done", mark)
        check(done.response.status == "cancelled", f"it is {done.response.status}")
        check(done.response.status_details.reason == "turn_detected", "for another reason")
        await connection.conversation.item.truncate(
            item_id=delta.item_id, content_index=0, audio_end_ms=800
        )
        cut = await noted.wait("conversation.item.truncated", mark)
        check(cut.audio_end_ms == 800, f"cut at {cut.audio_end_ms}")
        await connection.conversation.item.retrieve(item_id=delta.item_id)
        kept = await noted.wait("conversation.item.retrieved", mark)
        (written,) = noted.since(mark, "response.output_audio_transcript.done")
        left = kept.item.content[0].transcript
        check(0 < len(left) < len(written.transcript), f"left is {left!r}")
        await noted.wait("response.done", mark, count=2)
        told.append(f"left of it: {left}")


async def tool_call(connection: Any, noted: Noted) -> None:
    with step("tool call") as told:
        mark = noted.mark()
        await connection.conversation.item.create(item=typed(WEATHER))
        await connection.response.create()
        call = await noted.wait("response.function_call_arguments.done", mark)
        await noted.wait("response.done", mark)
        check((call.name, call.arguments) == ("weather", '{"city": "Bergen"}'), f"{call}")
        await connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        )
        await connection.response.create()
        await noted.wait("response.done", mark, count=2)
        done = noted.since(mark, "response.done")[-1]
        said = done.response.output[0].content[0].transcript
        check("rain" in said, f"said {said!r}")
        told.append(said)


async def text_turn(connection: Any, noted: Noted) -> None:
    with step("text turn") as told:
        mark = noted.mark()
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        await connection.conversation.item.create(item=typed(TYPED))
        await connection.response.create()
        written = await noted.wait("response.output_text.done", mark)
        check(written.text == ANSWER, f"wrote {written.text!r}")
        told.append(written.text)
        await noted.wait("response.done", mark)


async def out_of_band(connection: Any, noted: Noted) -> None:
    with step("out of band"):
        mark = noted.mark()
        await connection.response.create(
            response={"conversation": "none", "metadata": {"topic": "x"},
                      "output_modalities": ["text"], "input": [typed("Classify this.")]}
        )  # fmt: skip
        done = await noted.wait("response.done", mark)
        check(done.response.metadata == {"topic": "x"}, f"{done.response.metadata}")
        check(not noted.since(mark, "conversation.item.added"), "it is in the conversation")


async def image(connection: Any, noted: Noted) -> None:
    with step("image"):
        mark = noted.mark()
        picture = {"type": "input_image", "image_url": PICTURE}
        await connection.conversation.item.create(item=typed("Look.") | {"content": [picture]})
        await connection.response.create()
        written = await noted.wait("response.output_text.done", mark)
        check("picture" in written.text, f"wrote {written.text!r}")


async def conversation() -> None:
    async with connected(model=MODEL) as (connection, noted, microphone):
        await spoken_turn(connection, noted, microphone)
        await barge_in(connection, noted, microphone)
        for turn in (tool_call, text_turn, out_of_band, image):
            await turn(connection, noted)
        check(not noted.since(0, "error"), f"{noted.since(0, 'error')}")


async def transcription() -> None:
    with step("transcription") as told:
        asked = {"model": "gpt-4o-transcribe", "extra_query": {"intent": "transcription"}}
        async with connected(**asked) as (connection, noted, microphone):
            created = await noted.wait("session.created", 0)
            check(created.session.type == "transcription", f"it is {created.session.type}")
            await connection.session.update(
                session={"type": "transcription",
                         "audio": {"input": {"transcription": {"model": "gpt-4o-transcribe"}}}}
            )  # fmt: skip
            await noted.wait("session.updated", 0)
            mark = noted.mark()
            microphone.say(speech())
            words = await noted.wait("conversation.item.input_audio_transcription.completed", mark)
            check(words.transcript == HEARD, f"heard {words.transcript!r}")
            check(not noted.since(0, "response.created"), "it answered")
            told.append(f"{words.usage.seconds:.1f} s of speech")


async def client_secret() -> None:
    with step("client secret"):
        async with AsyncOpenAI(api_key=KEY, base_url=f"{HTTP}/v1") as client:
            made = await client.realtime.client_secrets.create(
                session={"type": "realtime", "instructions": "Be a pirate."}
            )
        async with connected(made.value, model=MODEL) as (_, noted, _):
            created = await noted.wait("session.created", 0)
            check(created.session.instructions == "Be a pirate.", "it has another session")


async def run() -> None:
    await conversation()
    await transcription()
    await client_secret()


main(run)
