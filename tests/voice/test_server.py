"""The server as a process: what it says at its start, where it listens, and how it ends."""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from engines.ports import EngineError
from voice import server
from voice.config import ConfigError, load
from voice.house import House

FAKE_VAD = """
import numpy as np
from dataclasses import dataclass

@dataclass(frozen=True)
class Options:
    pass

class Deaf:
    rate, window_samples = 16_000, 512
    def open(self): return 1
    def close(self, slot): pass
    def step(self, slots, windows): return np.zeros(len(slots), np.float32)

def create(options, models):
    return Deaf()
"""


@pytest.fixture
def deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The setting that makes a server need no model at all."""
    (tmp_path / "deaf_vad.py").write_text(FAKE_VAD)
    (tmp_path / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path.parent)
    monkeypatch.delitem(sys.modules, tmp_path.name, raising=False)
    return f"vad.engine={tmp_path.name}.deaf_vad"


@pytest.fixture
def told() -> list[str]:
    return []


@asynccontextmanager
async def serving(told: list[str], *settings: str) -> AsyncIterator[asyncio.Task[None]]:
    """A server in this process, once it says READY."""
    ready = asyncio.Event()

    def tell(line: str) -> None:
        told.append(line)
        if line.startswith("READY"):
            ready.set()

    config = load(settings=["server.port=0", *settings], scripted=True)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(server.serve(config, tell))
        waiting = tasks.create_task(ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        yield task
        task.cancel()


def port_of(told: list[str]) -> int:
    return int(told[-1].rpartition(":")[2])


async def test_it_says_what_it_does_and_then_that_it_is_ready(deaf: str, told: list[str]) -> None:
    async with serving(told, deaf):
        port = port_of(told)
        async with connect(f"ws://127.0.0.1:{port}/v1/realtime", proxy=None) as client:
            assert '"session.created"' in await client.recv()
    assert told[0].startswith("no API keys are set: listening on the loopback only")
    assert [line.split()[0] for line in told[1:]] == ["asr", "llm", "tts", "READY"]
    assert told[-1] == f"READY http://127.0.0.1:{port}"


async def test_with_keys_there_is_nothing_to_warn_of(deaf: str, told: list[str]) -> None:
    async with serving(told, deaf, "server.api_keys=k", "server.host=0.0.0.0"):
        port = port_of(told)
        headers = {"Authorization": "Bearer k"}
        url = f"ws://127.0.0.1:{port}/v1/realtime"
        async with connect(url, additional_headers=headers, proxy=None) as client:
            assert '"session.created"' in await client.recv()
    assert told[0].startswith("asr")
    assert told[-2:] == [
        f"on this machine it is http://127.0.0.1:{port}",
        f"READY http://0.0.0.0:{port}",
    ]


async def test_an_address_of_six_is_shown_as_urls_want_it(deaf: str, told: list[str]) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    async with serving(told, deaf, "server.host=::1"):
        assert told[-1].startswith("READY http://[::1]:")


async def test_phones_are_listened_for_where_they_have_a_port(deaf: str, told: list[str]) -> None:
    async with serving(told, deaf, "phone.audiosocket_port=0"):
        [line] = [line for line in told if "AudioSocket" in line]
        assert line.startswith("listening for AudioSocket at 127.0.0.1:")
        _, writer = await asyncio.open_connection("127.0.0.1", int(line.rpartition(":")[2]))
        writer.close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = f"phone.audiosocket_port={taken.getsockname()[1]}"
        config = load(settings=[deaf, "server.port=0", wanted], scripted=True)
        with pytest.raises(OSError, match=r"for AudioSocket: .*phone.audiosocket_port"):
            await server.serve(config, told.append)


async def test_a_port_that_is_taken_is_named(deaf: str, told: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = load(settings=[deaf, f"server.port={port}"], scripted=True)
        with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1:{port}: .*another --port"):
            await server.serve(config, told.append)
    assert told == []


async def test_a_wrong_setting_is_told_before_a_port_that_is_taken(
    deaf: str, told: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = [deaf, f"server.port={port}", "llm.engin=x"]
        with pytest.raises(ConfigError, match=r"Did you mean llm\.engine"):
            await server.serve(load(settings=settings, scripted=True), told.append)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "voice.example"])
def test_an_open_door_needs_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="VOICE_API_KEYS"):
        server.check_exposure(load(settings=[f"server.host={host}"]))
    server.check_exposure(load(settings=[f"server.host={host}", "server.api_keys=k"]))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_the_loopback_needs_none(host: str) -> None:
    server.check_exposure(load(settings=[f"server.host={host}"]))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_that_comes_before_it_serves_ends_it(deaf: str, number: int) -> None:
    ended: list[int] = []

    def tell(line: str) -> None:
        if "AudioSocket" in line:
            signal.raise_signal(number)

    before = signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    config = load(settings=[deaf, "server.port=0", "phone.audiosocket_port=0"], scripted=True)
    try:
        async with asyncio.timeout(10):
            await server.serve(config, tell)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [signal.SIGTERM]


async def test_a_model_that_cannot_be_loaded_ends_the_server(
    deaf: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(house: House, tell: Callable[[str], None]) -> None:
        raise EngineError("whisper", "unavailable", "no such model")

    monkeypatch.setattr(server, "warm_up", fail)
    config = load(settings=[deaf, "server.port=0"], scripted=True)
    with pytest.raises(EngineError, match="no such model"):
        await server.serve(config, told.append)
    assert not [line for line in told if line.startswith("READY")]


async def test_it_takes_no_calls_before_its_models_are_warm(
    deaf: str, told: list[str], monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    warm, ports = asyncio.Event(), []
    warm_up, listen = server.warm_up, server.listen

    async def wait_and_warm_up(house: House, tell: Callable[[str], None]) -> None:
        await warm.wait()
        await warm_up(house, tell)

    monkeypatch.setattr(server, "warm_up", wait_and_warm_up)
    monkeypatch.setattr(server, "listen", lambda config: ports.append(listen(config)) or ports[-1])
    config = load(settings=[deaf, "server.port=0"], scripted=True)
    task = asyncio.create_task(server.serve(config, told.append))
    await eventually(lambda: bool(told))
    url = f"ws://127.0.0.1:{ports[0].getsockname()[1]}/v1/realtime"
    with pytest.raises(Exception, match="503"):
        async with connect(url, proxy=None):
            pass
    warm.set()
    await eventually(lambda: told[-1].startswith("READY"))
    async with connect(url, proxy=None) as client:
        assert '"session.created"' in await client.recv()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_engine_processes_in_order(
    deaf: str, tmp_path: Path, number: int
) -> None:
    """They free their model, and what they were given of the disk."""
    folder = tempfile.mkdtemp(prefix="server-")  # short: a socket lies in it
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "voice.cli", "serve", "--scripted", "--port", "0", "--set", deaf),
        *("--set", "placement.tts=cpu"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path.parent), "TMPDIR": folder},
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while not (line := (await process.stdout.readline()).decode()).startswith("READY"):
            assert line
        assert os.listdir(folder)
        process.send_signal(number)
        await process.communicate()
    os.rmdir(folder)  # nothing is left in it


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_and_its_calls(deaf: str, tmp_path: Path, number: int) -> None:
    """The whole command, in a process of its own, which need not wait for calls to end."""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path.parent)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "voice.cli", "serve", "--scripted", "--port", "0", "--set", deaf),
        *("--set", "server.drain_s=0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while not (line := (await process.stdout.readline()).decode()).startswith("READY"):
            assert line
        url = line.split()[1].replace("http", "ws") + "/v1/realtime"
        async with connect(url, proxy=None) as client:
            await client.recv()
            process.send_signal(number)
            with pytest.raises(ConnectionClosed):
                while True:
                    await client.recv()
            assert client.close_code == 1012
        _, errors = await process.communicate()
    assert b"Traceback" not in errors
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: -15}[number]


@asynccontextmanager
async def draining(deaf: str, *settings: str) -> AsyncIterator[tuple[Any, int]]:
    """A server in a process of its own, and its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "voice.cli", "serve", "--scripted", "--port", "0"),
        *(part for setting in (deaf, *settings) for part in ("--set", setting)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            while not (line := (await process.stdout.readline()).decode()).startswith("READY"):
                assert line
            yield process, int(line.rpartition(":")[2])
            _, errors = await process.communicate()
        assert b"Traceback" not in errors
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def answer(port: int, path: str) -> tuple[int, Any]:
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(f"http://127.0.0.1:{port}{path}")
    return response.status_code, response.json()


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
async def test_a_server_that_is_terminated_takes_no_more_calls_and_lets_those_end_that_it_has(
    deaf: str,
) -> None:
    full = ("admission.max_calls=1", "admission.waiting=5", "admission.wait_s=60")
    async with draining(deaf, "server.drain_s=60", *full) as (process, port):
        url = f"ws://127.0.0.1:{port}/v1/realtime"
        async with connect(url, proxy=None) as client:
            await client.recv()
            waiting = [asyncio.create_task(refused(url)) for _ in range(5)]
            while (await answer(port, "/ready"))[1]["waiting"] < 5:
                pass
            process.send_signal(signal.SIGTERM)
            assert [await each for each in waiting] == ["shutting_down"] * 5
            assert await answer(port, "/ready") == (503, {"status": "closing", "calls": 1})
            assert (await answer(port, "/health"))[0] == 200
            assert await refused(url) == "shutting_down"
            await client.send('{"type": "input_audio_buffer.clear"}')
            while "input_audio_buffer.cleared" not in str(await client.recv()):
                pass
        await process.communicate()
    assert process.returncode == -signal.SIGTERM


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
async def test_a_terminal_that_is_closed_drains_as_well(deaf: str) -> None:
    async with draining(deaf, "server.drain_s=60") as (process, port):
        async with connect(f"ws://127.0.0.1:{port}/v1/realtime", proxy=None) as client:
            await client.recv()
            process.send_signal(signal.SIGHUP)
            while (ready := await answer(port, "/ready"))[0] == 200:
                pass
            assert ready[1] == {"status": "closing", "calls": 1}
        await process.communicate()
    assert process.returncode == -signal.SIGTERM


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
async def test_a_server_that_shall_outlive_its_terminal_does(deaf: str) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        async with draining(deaf) as (process, port):
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGHUP)
            assert (await answer(port, "/ready"))[0] == 200
            process.send_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_wait(deaf: str, again: int) -> None:
    async with (
        draining(deaf, "server.drain_s=600") as (process, port),
        connect(f"ws://127.0.0.1:{port}/v1/realtime", proxy=None) as client,
    ):
        await client.recv()
        process.send_signal(signal.SIGTERM)
        while (await answer(port, "/ready"))[0] == 200:
            pass
        process.send_signal(again)
        await closed_by_server(client)


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
async def test_calls_that_outlast_the_drain_are_closed(deaf: str) -> None:
    async with (
        draining(deaf, "server.drain_s=0.3") as (process, port),
        connect(f"ws://127.0.0.1:{port}/v1/realtime", proxy=None) as client,
    ):
        await client.recv()
        process.send_signal(signal.SIGTERM)
        await closed_by_server(client)


async def closed_by_server(client: Any) -> None:
    with pytest.raises(ConnectionClosed):
        while True:
            await client.recv()
    assert client.close_code == 1012


async def refused(url: str) -> str:
    """Why a handshake was refused."""
    with pytest.raises(InvalidStatus) as caught:
        async with connect(url, proxy=None, open_timeout=60):
            pass
    assert caught.value.response.status_code == 503
    return str(json.loads(caught.value.response.body)["error"]["code"])


@pytest.mark.slow
async def test_a_client_that_is_there_answers_pings_and_one_that_has_died_loses_its_call(
    deaf: str,
) -> None:
    full = ("admission.max_calls=2", "admission.lost_s=3", "server.drain_s=0")
    async with draining(deaf, *full) as (process, port):
        url = f"ws://127.0.0.1:{port}/v1/realtime"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: YW50aXBob24gbG9hZHRlcw==\r\n\r\n"
        )
        async with connect(url, proxy=None) as idle:
            began = asyncio.get_running_loop().time()
            with suppress(ConnectionResetError):
                while await reader.read(65_536):  # and answers nothing
                    pass
            assert 2.5 < asyncio.get_running_loop().time() - began < 6
            assert (await answer(port, "/ready"))[1]["calls"] == 1
            async with connect(url, proxy=None) as another:
                await another.recv()
            assert idle.close_code is None
        writer.transport.abort()
        process.send_signal(signal.SIGINT)
