"""Speech to text through the stock openai client."""

import asyncio
import io
import json
from typing import Any

import numpy as np
import pytest
import soundfile
from openai import (
    APIError,
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    InternalServerError,
)

from engines.ports import Priority, Transcript
from engines.scripted import AsrOptions, ScriptedAsr
from tests.voice.doors.stock import plain_client, stock_client

WORDS = "hello there"


def wav(*parts: tuple[int, float], rate: int = 16_000) -> bytes:
    """(level, seconds) one after the other; what is loud is speech here."""
    samples = np.concatenate([np.full(int(rate * s), level, np.int16) for level, s in parts])
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV")
    return file.getvalue()


TWO = wav((0, 1), (8_000, 2), (0, 1), (8_000, 1), (0, 1))


def hearing(**options: Any) -> Any:
    return ScriptedAsr(AsrOptions(text=WORDS, **options))


class Second:
    """Hears the first clip; what follows is another's."""

    def __init__(self, other: Any) -> None:
        self.engines = [hearing(), other]

    def open(self, request: Any) -> Any:
        return self.engines.pop(0).open(request)


def asked(client: Any, data: bytes = TWO, **fields: Any) -> Any:
    return client.audio.transcriptions.create(
        **{"model": "whisper-1", "file": ("two.wav", data)} | fields
    )


async def test_json(serve: Any) -> None:
    server = await serve(asr=hearing())
    async with stock_client(server) as client:
        heard = await asked(client)
    assert heard.text == f"{WORDS} {WORDS}"
    assert (heard.usage.type, heard.usage.seconds) == ("duration", 6.0)
    assert [request.priority for request in server.asr.requests] == [Priority.BATCH] * 2


async def test_text(serve: Any) -> None:
    server = await serve(asr=hearing())
    async with stock_client(server) as client:
        assert await asked(client, response_format="text") == f"{WORDS} {WORDS}\n"


async def test_subtitles(serve: Any) -> None:
    server = await serve(asr=hearing())
    async with stock_client(server) as client:
        srt = await asked(client, response_format="srt")
        vtt = await asked(client, response_format="vtt")
    blocks = srt.strip().split("\n\n")
    assert [block.split("\n")[2] for block in blocks] == [WORDS, WORDS]
    assert blocks[0].startswith("1\n00:00:0")
    assert vtt.startswith("WEBVTT\n\n00:00:0")


async def test_verbose_json(serve: Any) -> None:
    server = await serve(asr=hearing())
    async with stock_client(server) as client:
        heard = await asked(
            client, response_format="verbose_json", timestamp_granularities=["word", "segment"]
        )
    first, second = heard.segments
    assert (first.start, first.end) == (pytest.approx(1, abs=0.1), pytest.approx(3, abs=0.1))
    assert (second.start, second.end) == (pytest.approx(4, abs=0.1), pytest.approx(5, abs=0.1))
    assert [word.word for word in heard.words] == [*WORDS.split(), *WORDS.split()]
    assert heard.duration == 6.0
    assert [request.word_times for request in server.asr.requests] == [True, True]


async def test_a_stream(serve: Any) -> None:
    server = await serve(asr=hearing())
    async with stock_client(server) as client:
        plain = [event async for event in await asked(client, stream=True)]
        timed = [
            event
            async for event in await asked(client, stream=True, response_format="verbose_json")
        ]
    assert [event.type for event in plain] == [
        "transcript.text.delta",
        "transcript.text.delta",
        "transcript.text.done",
    ]
    assert "".join(event.delta for event in plain[:-1]) == plain[-1].text == f"{WORDS} {WORDS}"
    segments = [event for event in timed if event.type == "transcript.text.segment"]
    assert [(each.id, each.text) for each in segments] == [("seg_0", WORDS), ("seg_1", WORDS)]


async def test_a_stream_gives_what_is_heard_at_once(serve: Any, eventually: Any) -> None:
    server = await serve(asr=hearing())
    server.asr.engine = Second(hearing(hang_after=0))
    async with stock_client(server) as client:
        stream = await asked(client, stream=True)
        first = await anext(aiter(stream))
        assert first.delta == WORDS
        await stream.close()
    await eventually(lambda: not server.house.files.count)


async def test_what_was_said_how_it_is_to_be_heard(serve: Any) -> None:
    server = await serve("agent.language=en", asr=hearing())
    strategy = {"type": "server_vad", "silence_duration_ms": 2_000}
    async with stock_client(server) as client:
        await asked(client, language="de", prompt="Rolf", temperature=0.3)
        await asked(client, chunking_strategy=strategy)
    first = server.asr.requests[0]
    assert (first.language, first.prompt) == ("de", "Rolf")
    assert [request.language for request in server.asr.requests] == ["de", "de", "en"]
    assert server.asr.requests[2].pcm.duration_ms > 4_000


async def test_silence_says_nothing(serve: Any) -> None:
    server = await serve(asr=hearing())
    async with stock_client(server) as client:
        heard = await asked(client, wav((0, 3)), response_format="verbose_json")
        events = [event async for event in await asked(client, wav((0, 3)), stream=True)]
        assert await asked(client, wav((0, 3)), response_format="srt") == ""
    assert (heard.text, heard.segments, heard.duration) == ("", [], 3.0)
    assert [event.type for event in events] == ["transcript.text.done"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "audio_empty"),
        (b"no sound at all" * 99, "audio_unreadable"),
        (TWO[:100_000], "audio_truncated"),
        (wav((0, 0)), "audio_no_sound"),
        (wav((0, 1), rate=1_000), "audio_bad_rate"),
        (wav((0, 31)), "audio_too_long"),
    ],
)
async def test_files_that_cannot_be_heard(serve: Any, data: bytes, code: str) -> None:
    server = await serve("files.max_audio_s=30", asr=hearing())
    async with stock_client(server) as client:
        with pytest.raises(BadRequestError) as refused:
            await asked(client, data)
    assert (refused.value.code, refused.value.param) == (code, "file")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"stream": True, "response_format": "vtt"}, "stream"),
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities"),
    ],
)
async def test_what_cannot_be_asked(serve: Any, fields: Any, param: str) -> None:
    server = await serve(asr=hearing())
    async with stock_client(server) as client:
        with pytest.raises(BadRequestError) as refused:
            await asked(client, **fields)
    assert refused.value.param == param
    assert not server.asr.requests


@pytest.mark.parametrize("size", [2_000_000, 30_000_000])
async def test_an_upload_that_is_too_long_is_told_so(serve: Any, size: int) -> None:
    server = await serve("files.max_upload_bytes=1000000", asr=hearing())
    async with stock_client(server) as client:
        with pytest.raises(APIStatusError) as refused:
            await asked(client, bytes(size))
    assert (refused.value.status_code, refused.value.code) == (413, "request_too_large")


async def test_an_upload_that_does_not_say_its_length_is_stopped(serve: Any) -> None:
    server = await serve("files.max_upload_bytes=1000000", asr=hearing())
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

    async def body() -> Any:
        yield head
        for _ in range(100):
            yield bytes(100_000)

    async with plain_client(server) as client:
        answer = await client.post(
            f"http://127.0.0.1:{server.port}/v1/audio/transcriptions",
            content=body(),
            headers={"Content-Type": "multipart/form-data; boundary=b"},
        )
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


async def test_a_recogniser_that_fails(serve: Any) -> None:
    server = await serve(asr=hearing(fail_code="failed"))
    async with stock_client(server) as client:
        with pytest.raises(InternalServerError) as failed:
            await asked(client)
        assert failed.value.code == "engine_failed"
        with pytest.raises(APIError):
            _ = [event async for event in await asked(client, stream=True)]


async def test_a_recogniser_that_fails_in_the_middle_of_a_stream(serve: Any) -> None:
    server = await serve(asr=hearing())
    server.asr.engine = Second(hearing(fail_code="failed"))
    async with stock_client(server) as client:
        events = []
        with pytest.raises(APIError, match="fails as its options say"):
            async for event in await asked(client, stream=True):
                events.append(event)  # noqa: PERF401 - what came before it failed
    assert [event.type for event in events] == ["transcript.text.delta"]


async def test_strangers(serve: Any) -> None:
    server = await serve("server.api_keys=secret", asr=hearing())
    async with stock_client(server, "wrong") as client:
        with pytest.raises(AuthenticationError):
            await asked(client)
    assert not server.asr.requests


async def test_a_client_that_goes_ends_the_work(serve: Any, eventually: Any) -> None:
    server = await serve(asr=hearing(hang_after=0))
    async with stock_client(server) as client:
        asking = asyncio.ensure_future(asked(client))
        await eventually(lambda: server.asr.engine.load().busy > 0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    await eventually(lambda: server.asr.engine.load().busy == 0 and not server.house.files.count)


async def test_a_call_takes_the_recogniser_and_the_file_is_heard_all_the_same(
    serve: Any, eventually: Any
) -> None:
    server = await serve("admission.asr=1", asr=hearing(item_delay_ms=100))
    async with stock_client(server) as client:
        asking = asyncio.ensure_future(asked(client))
        await eventually(lambda: len(server.asr.requests) == 1)
        async with server.call():
            await eventually(lambda: server.asr.engine.load().busy == 0)
            assert not asking.done()
        heard = await asking
    assert heard.text == f"{WORDS} {WORDS}"
    assert [request.priority for request in server.asr.requests] == [Priority.BATCH] * 3


async def test_what_the_guard_doubts_is_told(serve: Any) -> None:
    server = await serve(asr=hearing())
    server.asr.engine.script = lambda request: [Transcript(WORDS, "en", (), "loop")]
    async with plain_client(server) as client:
        answer = await client.post(
            f"http://127.0.0.1:{server.port}/v1/audio/transcriptions",
            data={"model": "x", "response_format": "verbose_json"},
            files={"file": ("two.wav", TWO)},
        )
    told = json.loads(answer.content)
    assert (told["suspicion"], told["segments"][0]["suspicion"]) == ("loop", "loop")
