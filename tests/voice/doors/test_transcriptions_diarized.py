"""Who says what, through the stock openai client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import BadRequestError, InternalServerError

from engines.diarization.turns import Diarization, DiarizationRequest, SpeakerTurn
from engines.ports import EngineError
from tests.voice.conftest import eventually
from tests.voice.doors.stock import plain_client, stock_client
from tests.voice.doors.test_transcriptions import TWO, asked, hearing

TURNS = (SpeakerTurn("x", 900, 3_100), SpeakerTurn("y", 3_900, 5_100))


class Teller:
    """A diarizer that says the same of everything."""

    def __init__(self, error: EngineError | None = None) -> None:
        self.error = error
        self.requests: list[DiarizationRequest] = []
        self.left = False

    async def warm_up(self) -> None: ...

    async def close(self) -> None: ...

    @asynccontextmanager
    async def open(self, request: DiarizationRequest) -> AsyncIterator[AsyncIterator[Diarization]]:
        self.requests.append(request)
        try:
            yield self._given()
        finally:
            self.left = True

    async def _given(self) -> AsyncIterator[Diarization]:
        if self.error is not None:
            raise self.error
        yield Diarization(TURNS, TURNS)


class Thinker(Teller):
    """One that never comes to an end."""

    async def _given(self) -> AsyncIterator[Diarization]:
        await asyncio.Event().wait()
        yield Diarization()


@pytest.fixture
async def server(serve: Any) -> Any:
    running = await serve(asr=hearing())
    running.house.diarizer = Teller()
    return running


async def test_each_segment_has_its_speaker(server: Any) -> None:
    async with stock_client(server) as client:
        answer = await asked(client, response_format="diarized_json")
    assert [(each.speaker, each.text) for each in answer.segments] == [
        ("A", "hello there"),
        ("B", "hello there"),
    ]
    assert answer.duration == 6.0
    [request] = server.house.diarizer.requests
    assert (request.speakers, len(request.pcm), request.pcm.rate) == (None, 96_000, 16_000)
    assert request.call.startswith("file_")


async def test_segments_come_at_the_end_of_a_stream(server: Any) -> None:
    async with stock_client(server) as client:
        events = await asked(client, response_format="diarized_json", stream=True)
        kinds = [(event.type, getattr(event, "speaker", None)) async for event in events]
    assert kinds == [
        ("transcript.text.delta", None),
        ("transcript.text.delta", None),
        ("transcript.text.segment", "A"),
        ("transcript.text.segment", "B"),
        ("transcript.text.done", None),
    ]


async def test_subtitles_tell_who_speaks_where_they_are_asked_to(server: Any) -> None:
    async with stock_client(server) as client:
        fields = {"response_format": "vtt", "extra_body": {"diarize": True}}
        shown = await asked(client, **fields)
        assert "<v Speaker 1>hello there" in shown
        assert "<v Speaker 2>hello there" in shown
        shown = await asked(client, response_format="srt", extra_body={"speakers": 2})
        assert "Speaker 1: hello there" in shown
        plain = await asked(client, response_format="srt")
    assert "Speaker" not in plain
    assert [each.speakers for each in server.house.diarizer.requests] == [None, 2]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "json", "extra_body": {"diarize": True}}, "response_format"),
        ({"response_format": "diarized_json", "extra_body": {"speakers": 0}}, "speakers"),
        (
            {"response_format": "diarized_json", "extra_body": {"known_speaker_names[]": "ann"}},
            "known_speaker_names",
        ),
    ],
)
async def test_what_cannot_be_asked_of_speakers(server: Any, fields: Any, param: str) -> None:
    async with stock_client(server) as client:
        with pytest.raises(BadRequestError) as refused:
            await asked(client, **fields)
    assert refused.value.param == param
    assert not server.asr.requests


async def test_known_speakers_are_refused_as_the_stock_client_sends_them(server: Any) -> None:
    known = {"known_speaker_names": ["ann"], "known_speaker_references": ["data:audio/wav;base64,"]}
    async with stock_client(server) as client:
        with pytest.raises(BadRequestError, match="not known by name here"):
            await asked(client, response_format="diarized_json", **known)


async def test_a_server_without_a_diarizer_says_so(serve: Any) -> None:
    server = await serve(asr=hearing())
    async with plain_client(server) as client:
        answer = await client.post(
            f"http://127.0.0.1:{server.port}/v1/audio/transcriptions",
            data={"model": "x", "response_format": "diarized_json"},
            files={"file": ("two.wav", TWO)},
        )
    assert answer.status_code == 503
    assert "diarization.engine is none" in answer.json()["error"]["message"]


async def test_a_diarizer_that_fails_ends_the_whole(server: Any) -> None:
    server.house.diarizer = Teller(EngineError("pyannote", "failed", "its process ended"))
    async with stock_client(server) as client:
        with pytest.raises(InternalServerError, match="its process ended"):
            await asked(client, response_format="diarized_json")


async def test_work_for_a_client_who_has_gone_is_left(server: Any) -> None:
    server.house.diarizer = Thinker()
    async with stock_client(server) as client:
        waiting = asyncio.create_task(asked(client, response_format="diarized_json"))
        await eventually(lambda: server.house.diarizer.requests)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await eventually(lambda: server.house.diarizer.left)
