"""The Realtime client against a small server, and its microphone on a clock that jumps."""

import asyncio
import selectors
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import Request, Response, ServerConnection, serve

from clients.realtime import CallError, Microphone, RealtimeCall, connect
from voice.wire import realtime_client as said
from voice.wire import realtime_server as server

RATE = 24_000


async def test_a_written_question_is_answered_with_sound(small_server: Any) -> None:
    async with connect(small_server.url, model="any model") as call:
        await call.configure({"instructions": "Be brief."})
        await call.say("Hello?")
        kinds = []
        async for event in call:
            kinds.append(type(event))
            if isinstance(event, server.ResponseDoneEvent):
                break
    assert kinds[:3] == [
        server.SessionCreatedEvent,
        server.SessionUpdatedEvent,
        server.ResponseCreatedEvent,
    ]
    assert server.ResponseAudioDeltaEvent in kinds
    assert small_server.session == {"type": "realtime", "instructions": "Be brief."}
    assert small_server.paths == ["/v1/realtime?model=any%20model"]
    assert [type(event) for event in small_server.heard] == [
        said.SessionUpdateEvent,
        said.ConversationItemCreateEvent,
        said.ResponseCreateEvent,
    ]


async def test_the_key_is_shown_to_the_server(small_server: Any) -> None:
    small_server.key = "secret"
    async with connect(small_server.url, api_key="secret") as call:
        async for event in call:
            assert isinstance(event, server.SessionCreatedEvent)
            break
    with pytest.raises(CallError, match=r"refused the API key .*--api-key"):
        async with connect(small_server.url, api_key="wrong"):
            pass
    with pytest.raises(CallError, match=r"asks for an API key: pass --api-key"):
        async with connect(small_server.url):
            pass


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/realtime"])
async def test_a_server_may_be_named_as_a_page_is(small_server: Any, path: str) -> None:
    url = small_server.url.replace("ws://", "http://").replace("/v1/realtime", path)
    async with connect(url, model="a model") as call:
        async for event in call:
            assert isinstance(event, server.SessionCreatedEvent)
            break


async def test_a_wrong_path_is_told_from_a_wrong_key(small_server: Any) -> None:
    with pytest.raises(CallError, match="HTTP 404"):
        async with connect(small_server.url.replace("/v1/", "/v2/")):
            pass


async def test_a_call_that_is_forbidden_is_not_blamed_on_the_key() -> None:
    def forbid(connection: ServerConnection, request: Request) -> Response:
        return connection.respond(HTTPStatus.FORBIDDEN, "no")

    async with serve(talking, "127.0.0.1", 0, process_request=forbid) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(CallError, match=r"You may not use .*HTTP 403.*/v1/realtime") as caught:
            async with connect(f"ws://127.0.0.1:{port}", api_key="right"):
                pass
    assert "key" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "told"), [({"Retry-After": "7"}, "try again in 7 s"), ({}, "try again later")]
)
async def test_a_full_server_says_when_to_try_again(headers: dict[str, str], told: str) -> None:
    def full(connection: ServerConnection, request: Request) -> Response:
        response = connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "full")
        response.headers.update(headers)
        return response

    async with serve(talking, "127.0.0.1", 0, process_request=full) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(CallError, match=rf"takes no more calls now \(HTTP 503\): {told}"):
            async with connect(f"ws://127.0.0.1:{port}/"):
                pass


async def test_a_server_that_is_not_up_is_said_to_be_down(unused_tcp_port: int) -> None:
    with pytest.raises(CallError, match=r"Nothing listens at .*voice serve"):
        async with connect(f"ws://127.0.0.1:{unused_tcp_port}/v1/realtime"):
            pass


async def test_a_server_without_tls_is_said_to_have_none() -> None:
    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(CallError, match=rf"does not speak TLS.*http://127.0.0.1:{port}/v1"):
            async with connect(f"https://127.0.0.1:{port}/v1"):
                pass


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "mailto:me", "ws://[broken", "ws://h:x"])
async def test_what_is_no_address_is_said_to_be_none(url: str) -> None:
    with pytest.raises(CallError, match="is no address"):
        async with connect(url):
            pass


async def talking(socket: ServerConnection) -> None:
    await socket.send('{"type":"event.of.tomorrow","event_id":"e"}')
    await socket.send('{"type":"input_audio_buffer.cleared","event_id":"e"}')
    await socket.recv()
    await socket.close(1008, "enough")


async def nonsensical(socket: ServerConnection) -> None:
    await socket.send("nonsense")
    await socket.wait_closed()


async def test_unknown_events_are_passed_over_and_a_bad_end_is_told() -> None:
    async with serve(talking, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}") as call:
            events = aiter(call)
            assert isinstance(await anext(events), server.InputAudioBufferClearedEvent)
            await call.send(said.InputAudioBufferClearEvent())
            with pytest.raises(CallError, match=r"code 1008: enough"):
                await anext(events)
            with pytest.raises(CallError, match=r"code 1008: enough"):
                await call.send(said.InputAudioBufferClearEvent())


async def test_a_server_that_talks_nonsense_is_told_so() -> None:
    async with serve(nonsensical, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}") as call:
            with pytest.raises(CallError, match="no Realtime event"):
                await anext(aiter(call))


async def test_a_line_that_breaks_is_told_from_a_hang_up() -> None:
    async def vanish(socket: ServerConnection) -> None:
        socket.transport.abort()

    async with serve(vanish, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}") as call:
            with pytest.raises(CallError, match="connection to the server broke"):
                await anext(aiter(call))


# --- the microphone -------------------------------------------------------------------------


class _Jumping(selectors.SelectSelector):
    """Waits for nothing: time goes to the next timer instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time as the loop's timers have it."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class Line(RealtimeCall):
    """Keeps what was sent, and when. ``slow`` frames take so many seconds to send."""

    def __init__(self, slow: dict[int, float] | None = None) -> None:
        self.frames: list[tuple[float, np.ndarray]] = []
        self._slow = slow or {}

    async def append(self, samples: np.ndarray) -> None:
        self.frames.append((asyncio.get_running_loop().time(), samples))
        await asyncio.sleep(self._slow.get(len(self.frames), 0.0))


def on_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


def test_frames_leave_on_time_and_the_line_stays_open() -> None:
    async def work() -> None:
        line = Line()
        microphone = Microphone(line)
        start = microphone.say(np.full(RATE // 20, 7, np.int16))
        assert start == microphone.start
        assert microphone.busy
        for _ in range(5):
            await microphone.tick()
        assert not microphone.busy
        assert [when - start for when, _ in line.frames] == pytest.approx(
            [0.02, 0.04, 0.06, 0.08, 0.1], abs=1e-6
        )
        assert [int(frame.sum()) for _, frame in line.frames] == [480 * 7, 480 * 7, 240 * 7, 0, 0]
        assert microphone.recording().tolist() == [7] * 1200 + [0] * 1200

    on_virtual_time(work())


def test_a_late_frame_does_not_delay_the_next() -> None:
    async def work() -> None:
        line = Line(slow={2: 0.05})
        microphone = Microphone(line)
        start = microphone.start
        for _ in range(6):
            await microphone.tick()
        assert [when - start for when, _ in line.frames] == pytest.approx(
            [0.02, 0.04, 0.09, 0.09, 0.1, 0.12], abs=1e-6
        )

    on_virtual_time(work())


def test_words_are_dated_by_when_they_will_be_spoken() -> None:
    async def work() -> None:
        microphone = Microphone(Line())
        assert len(microphone.recording()) == 0
        start = microphone.start
        await microphone.tick()
        assert microphone.say(np.ones(480, np.int16)) == pytest.approx(start + 0.02)
        assert microphone.say(np.ones(480, np.int16)) == pytest.approx(start + 0.04)

    on_virtual_time(work())
