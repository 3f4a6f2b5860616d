"""Text to speech through the stock openai client."""

import asyncio
import base64
import io
import json
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from openai import APIConnectionError, BadRequestError, InternalServerError, RateLimitError

from engines.ports import Priority
from engines.scripted import RATE, ScriptedTts, TtsOptions
from pipelines.media.reading import open_media
from tests.voice.doors.stock import plain_client, stock_client

TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
TWELVE = "One two three four five six seven eight nine ten eleven twelve."
"""Words of which the scripted voice makes a second of sound."""
LASTS_S = 1.0 + 0.05 + 0.3
"""The first phrase is cut off early; the end has its silence."""

FAILS_LATER = TtsOptions(fail_code="failed", fail_after=5, item_delay_ms=20)


def said(client: Any, **fields: Any) -> Any:
    asked = {"model": "tts-1", "voice": "alloy", "input": TWELVE} | fields
    return client.audio.speech.create(**asked)


def seconds_of(data: bytes) -> float:
    with open_media(io.BytesIO(data)) as media:
        return sum(map(len, media.blocks)) / 16_000


@pytest.mark.parametrize("form", list(TYPES))
async def test_every_format_has_its_type_and_its_length(serve: Any, form: str) -> None:
    server = await serve()
    async with stock_client(server) as client:
        answer = await said(client, response_format=form)
    assert answer.response.headers["content-type"] == TYPES[form]
    data = answer.content
    lasts_s = len(data) / 2 / RATE if form == "pcm" else seconds_of(data)
    assert lasts_s == pytest.approx(LASTS_S, abs=0.12)


async def test_mp3_unless_asked_otherwise_and_events_where_asked(serve: Any) -> None:
    server = await serve()
    async with stock_client(server) as client:
        assert (await said(client)).response.headers["content-type"] == "audio/mpeg"
        answer = await said(client, response_format="wav", stream_format="sse")
    assert answer.response.headers["content-type"] == "text/event-stream"
    lines = [line for line in answer.content.split(b"\n\n") if line]
    events = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    data = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert seconds_of(data) == pytest.approx(LASTS_S, abs=0.01)
    assert events[-1] == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 12, "output_tokens": 14, "total_tokens": 26},
    }


async def test_the_voice_is_asked_as_calls_ask_it(serve: Any) -> None:
    server = await serve("agent.voice=tara", "agent.language=en")
    async with stock_client(server) as client:
        await said(client, input="It costs $5. **Really** cheap.", voice="leo", speed=2.0)
        await said(client, voice={"id": "zoe"}, instructions="Whisper.")
        await said(client, voice="")
    texts = " ".join(request.text for request in server.tts.requests)
    assert "five dollars" in texts
    assert "*" not in texts
    first = server.tts.requests[0]
    assert (first.voice, first.speed, first.priority) == ("leo", 2.0, Priority.BATCH)
    assert first.call.startswith("file_")
    assert {request.voice for request in server.tts.requests} == {"leo", "zoe", "tara"}


async def test_a_streaming_client_hears_the_beginning_before_the_end_is_made(serve: Any) -> None:
    server = await serve(tts=ScriptedTts(TtsOptions(hang_after=10)))
    async with stock_client(server) as client:
        streaming = client.audio.speech.with_streaming_response.create(
            model="tts-1", voice="x", input=TWELVE, response_format="pcm"
        )
        async with streaming as answer:
            chunk = await anext(answer.iter_bytes(4_096))
    assert len(chunk) == 4_096


async def test_a_client_that_goes_ends_the_work(serve: Any, eventually: Any) -> None:
    server = await serve(tts=ScriptedTts(TtsOptions(hang_after=10)))
    tts = server.tts.engine
    async with stock_client(server) as client:
        streaming = client.audio.speech.with_streaming_response.create(
            model="tts-1", voice="x", input=TWELVE, response_format="pcm"
        )
        async with streaming as answer:
            await anext(answer.iter_bytes(4_096))
            assert (tts.load().busy, server.house.files.count) == (2, 1)  # both of its phrases
    await eventually(lambda: tts.load().busy == 0 and server.house.files.count == 0)
    assert server.house.metrics.file_jobs.labels("tts", "gone")._value.get() == 1


async def test_a_client_that_goes_before_anything_came(serve: Any, eventually: Any) -> None:
    server = await serve(tts=ScriptedTts(TtsOptions(hang_after=0)))
    async with stock_client(server) as client:
        asking = asyncio.ensure_future(said(client))
        await eventually(lambda: server.tts.engine.load().busy == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    await eventually(lambda: server.tts.engine.load().busy == 0)


async def test_a_voice_that_fails_at_once_is_an_error(serve: Any) -> None:
    server = await serve(tts=ScriptedTts(TtsOptions(fail_code="unavailable")))
    async with stock_client(server) as client:
        with pytest.raises(InternalServerError) as failed:
            await said(client)
    assert (failed.value.status_code, failed.value.code) == (503, "engine_unavailable")


@pytest.mark.filterwarnings("default")
async def test_a_voice_that_fails_in_the_middle_breaks_the_file_off(serve: Any) -> None:
    server = await serve(tts=ScriptedTts(FAILS_LATER))
    async with stock_client(server) as client:
        with pytest.raises((APIConnectionError, httpx.RemoteProtocolError)):
            await (await said(client, response_format="pcm")).aread()


async def test_a_voice_that_fails_in_the_middle_of_events_says_so(serve: Any) -> None:
    server = await serve(tts=ScriptedTts(FAILS_LATER))
    async with stock_client(server) as client:
        answer = await said(client, response_format="pcm", stream_format="sse")
    last = answer.content.strip().split(b"\n\n")[-1]
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "engine_failed"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "wma"}, "response_format"),
        ({"speed": 5}, "speed"),
        ({"input": ""}, "input"),
        ({"input": "x" * 101}, "input"),
        ({"input": "é" * 2_000}, "input"),
    ],
)
async def test_what_cannot_be_asked(serve: Any, fields: Any, param: str) -> None:
    server = await serve("files.max_characters=100")
    async with stock_client(server) as client:
        with pytest.raises(BadRequestError) as refused:
            await said(client, **fields)
    assert (refused.value.param, refused.value.type) == (param, "invalid_request_error")
    assert not server.tts.requests


async def test_a_body_without_end_is_refused(serve: Any) -> None:
    server = await serve("files.max_characters=10")
    async with plain_client(server) as client:
        url = f"http://127.0.0.1:{server.port}/v1/audio/speech"
        answer = await client.post(url, content=b"x" * 10_000_000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


async def test_pauses_are_what_the_settings_say(serve: Any) -> None:
    server = await serve("narration.paragraph_ms=1500", "narration.end_ms=0")
    async with stock_client(server) as client:
        text = f"Twelve words.\n\n{TWELVE}"
        answer = await said(client, input=text, response_format="pcm", speed=2.0)
    samples = np.frombuffer(answer.content, "<i2")
    silences = np.diff(np.flatnonzero(samples)) / RATE
    assert silences.max() == pytest.approx(1.5 / 2.0, abs=0.005)


async def test_what_has_nothing_to_be_said_is_a_file_of_nothing(serve: Any) -> None:
    server = await serve()
    async with stock_client(server) as client:
        answer = await said(client, input="***", response_format="wav")
    samples, rate = soundfile.read(io.BytesIO(answer.content), dtype="int16")
    assert (len(samples), rate) == (0, 24_000)


async def test_jobs_beyond_the_most_are_told_to_come_again(serve: Any, eventually: Any) -> None:
    server = await serve("files.max_jobs=1", tts=ScriptedTts(TtsOptions(hang_after=0)))
    async with stock_client(server) as client:
        first = asyncio.ensure_future(said(client))
        await eventually(lambda: server.house.files.count == 1)
        with pytest.raises(InternalServerError) as refused:
            await said(client)
        assert (refused.value.status_code, refused.value.code) == (503, "server_full")
        assert int(refused.value.response.headers["retry-after"]) > 0
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    await eventually(lambda: server.house.files.count == 0)


async def test_a_keys_requests_are_counted(serve: Any) -> None:
    server = await serve("tenants.acme.keys=k", "tenants.acme.requests_per_minute=1")
    async with stock_client(server, "k") as client:
        await said(client)
        with pytest.raises(RateLimitError):
            await said(client)


async def test_calls_take_the_voice_and_the_file_is_whole_all_the_same(
    serve: Any, eventually: Any
) -> None:
    server = await serve("admission.tts=1", tts=ScriptedTts(TtsOptions(item_delay_ms=2)))
    async with stock_client(server) as client:
        speaking = asyncio.ensure_future(
            said(client, input=f"{TWELVE} " * 3, response_format="pcm")
        )
        await eventually(lambda: len(server.tts.requests) == 2)
        async with server.call():
            displaced = server.house.metrics.files_displaced._value.get()
            during = len(server.tts.requests)
            for _ in range(200):
                await asyncio.sleep(0)
            assert (displaced, len(server.tts.requests)) == (1, during)
        data = (await speaking).content
    pauses_s = 0.05 + 2 * 0.4 + 0.3
    assert len(data) == 2 * round((3 + pauses_s) * RATE)
    assert np.abs(np.frombuffer(data, "<i2")).max() > 1_000
