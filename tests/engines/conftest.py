"""A package index on this machine, with files made for the test; TensorRT-LLM, pretended."""

from __future__ import annotations

import base64
import hashlib
import importlib
import io
import os
import re
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from engines.catalogue import Archive, Member, Model, ModelFile


class FakeIndex:
    """Serves projects as pip reads them. What it is told to do badly, it does."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []  # archive, its Range header
        self.break_after: list[int] = []  # bytes after which each next download ends
        self.knows_ranges = True
        self.login: str | None = None
        self.hold = threading.Event()
        self.hold.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.host = f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wheel(self, project: str, files: dict[str, bytes], tag: str = "py3-none-any") -> Archive:
        """Offer a wheel with these files."""
        name = project.replace("-", "_")
        content = io.BytesIO()
        about = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n".encode()
        with zipfile.ZipFile(content, "w") as wheel:
            for path, data in {
                **files,
                f"{name}-1.0.dist-info/METADATA": about,
                f"{name}-1.0.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode(),
                f"{name}-1.0.dist-info/RECORD": b"",
            }.items():
                wheel.writestr(path, data)
        return self._offer(project, f"{name}-1.0-{tag}.whl", content.getvalue())

    def source(self, project: str, files: dict[str, bytes]) -> Archive:
        """Offer a source archive that nobody could build."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            for path, data in files.items():
                entry = tarfile.TarInfo(f"{project}-1.0/{path}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return self._offer(project, f"{project}-1.0.tar.gz", content.getvalue())

    def _offer(self, project: str, filename: str, data: bytes) -> Archive:
        self.files[filename] = data
        return Archive(project, "1.0", filename, len(data), hashlib.sha256(data).hexdigest())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                with suppress(ConnectionError):
                    index.answer(self)

        return Handler

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.strip("/").rsplit("/", 1)[-1]
        if name in self.files:
            self._send_file(request, name)
            return
        known = [file for file in self.files if re.match(name.replace("-", "[-_]") + "-", file)]
        links = "".join(f'<a href="/files/{file}">{file}</a>' for file in known)
        self._send(request, 200, f"<!DOCTYPE html><html><body>{links}</body></html>".encode())

    def _send_file(self, request: BaseHTTPRequestHandler, name: str) -> None:
        wanted = request.headers["Range"]
        if self.login and request.headers["Authorization"] != self.login:
            self._send(request, 401, b"", {"WWW-Authenticate": 'Basic realm="index"'})
            return
        self.asked.append((name, wanted))
        self.hold.wait(10)
        data, status, headers = self.files[name], 200, {}
        if wanted and self.knows_ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                self._send(request, 416, b"")
                return
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            status, data = 206, data[start:]
        self._send(request, status, data, headers)

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        data: bytes,
        headers: dict[str, str] | None = None,
    ) -> None:
        request.send_response(status)
        for key, value in (headers or {}).items():
            request.send_header(key, value)
        request.send_header("Content-Type", "text/html")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if status in (200, 206) and "files" in request.path and self.break_after:
            request.wfile.write(data[: self.break_after.pop(0)])
            request.close_connection = True
        else:
            request.wfile.write(data)

    def ask_for_login(self, user: str, password: str) -> None:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.login = f"Basic {token}"


def _use_only(monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    """Let pip know of these settings and nothing else."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name, value in settings.items():
        monkeypatch.setenv(f"PIP_{name}", value)


@pytest.fixture
def use_pip_settings(monkeypatch: pytest.MonkeyPatch):
    """A function that sets pip's environment: ``use_pip_settings(INDEX_URL=...)``."""
    return lambda **settings: _use_only(monkeypatch, **settings)


@pytest.fixture
def index(use_pip_settings) -> Iterator[FakeIndex]:
    """An index that pip is set up for."""
    fake = FakeIndex()
    use_pip_settings(INDEX_URL=f"http://{fake.host}/simple")
    yield fake
    fake.close()


def _model_of(name: str, files: dict[str, tuple[Member | bytes, ...]], whole: dict[str, bytes]):
    return Model(
        name,
        "a test",
        "MIT",
        tuple(
            ModelFile(file, len(whole[file]), hashlib.sha256(whole[file]).hexdigest(), pieces)
            for file, pieces in files.items()
        ),
    )


@pytest.fixture
def model_of():
    """A function that makes a Model: its files' pieces, and what they come to."""
    return _model_of


@pytest.fixture
def trtllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Where a test says what TensorRT-LLM does: ``trtllm.script = lambda ids, sampling: [...]``."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "fakes")
    yield importlib.import_module("tensorrt_llm.pretend")
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorrt_llm"]:
        del sys.modules[name]


@pytest.fixture
def serve_http(monkeypatch: pytest.MonkeyPatch):
    """``async with serve_http(answer) as server``: see tests/fakes/http_server.py."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "fakes")
    return importlib.import_module("http_server").serve_http
