"""Where traces go, and that they are off."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from voice import packages
from voice.app import check_engines
from voice.config import ConfigError, load
from voice.traces import Traces


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("traces.endpoint=collector", "is no address: write it as http://HOST:4318"),
        ("traces.endpoint=", "is no address"),
        ("traces.endpoint=ftp://collector", "is no address"),
        ("traces.endpoint=http://collector:x", "is no address"),
        ("traces.endpoint=http://[::1", "is no address"),
        ("traces.headers=secret", "traces.headers: number 1 is not NAME=VALUE"),
        ("traces.headers=a=b,=secret", "traces.headers: number 2 is not NAME=VALUE"),
        ("traces.sample=2", "traces.sample"),
        ("traces.samples=1", "Did you mean traces.sample?"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_without_its_secrets(setting: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(settings=[setting])
    assert told in str(error.value)
    assert "secret" not in str(error.value)


def test_a_server_without_traces_loads_nothing_of_them() -> None:
    script = (
        "import sys; from voice.server import make_app; from voice.config import load;"
        " from voice.traces import Traces; Traces(load());"
        " sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_package_that_is_missing_is_named_with_how_it_is_got(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(ConfigError, match=r"opentelemetry.*not installed.*\[traces\]"):
        Traces(load(settings=["traces.endpoint=http://127.0.0.1:4318"]))


async def test_a_call_from_beginning_to_end_is_one_trace(serve: Callable[..., Any]) -> None:
    exporter = InMemorySpanExporter()
    server = await serve()
    config = load(settings=["asr.model=heard", "asr.engine=whisper"], scripted=False)
    server.house.traces = Traces(config, SimpleSpanProcessor(exporter))
    async with server.call() as client:
        await client.take_turn()
        await client.until("response.done")
    await server.is_empty()
    spans = exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans}) == 1
    names = [span.name for span in spans]
    assert {"invoke_agent antiphon", "process turn", "wait for silence", "send reply"} <= {*names}
    assert {"transcribe heard", "chat smollm2", "speak hibari"} <= {*names}
    [root] = [span for span in spans if span.parent is None]
    assert root.name == "invoke_agent antiphon"
    assert all(span.start_time <= span.end_time <= root.end_time + 1_000_000 for span in spans)


async def test_a_call_that_is_not_sampled_costs_nothing() -> None:
    settings = ["traces.endpoint=http://127.0.0.1:1", "traces.sample=0"]
    traces = Traces(load(settings=settings))
    with traces.follow("sess_1", {}) as observers:
        assert observers == ()
    await asyncio.to_thread(traces.close)


async def test_spans_go_to_the_collector_with_their_headers() -> None:
    came: list[tuple[str, str | None, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.path, self.headers["X-Key"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = Thread(target=collector.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{collector.server_port}"
        settings = [f"traces.endpoint={address}", "traces.headers=X-Key=k1", "traces.service=mine"]
        traces = Traces(load(settings=settings))
        with traces.follow("sess_1", {}) as observers:
            assert len(observers) == 1
        await asyncio.to_thread(traces.close)
        collector.shutdown()
        thread.join()
    [(path, key, body)] = came
    assert (path, key) == ("/v1/traces", "k1")
    assert b"invoke_agent antiphon" in body
    assert b"mine" in body


def test_missing_packages_are_told_before_any_engine_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = packages.version_of
    monkeypatch.setattr(
        packages, "version_of", lambda name: "" if name in packages.TRACES else known(name)
    )
    settings = ["traces.endpoint=http://127.0.0.1:4318"]
    with pytest.raises(ConfigError, match=r"traces: the packages opentelemetry-sdk, .*\[traces\]"):
        check_engines(load(settings=settings, scripted=True))
    check_engines(load(scripted=True))


@pytest.mark.slow
async def test_a_collector_that_never_answers_keeps_no_server_from_stopping() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"http://127.0.0.1:{mute.getsockname()[1]}"
        traces = Traces(load(settings=[f"traces.endpoint={address}"]))
        with traces.follow("sess_1", {}):
            pass
        async with asyncio.timeout(8):
            await asyncio.to_thread(traces.close)
