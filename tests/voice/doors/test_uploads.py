"""Bodies, read no further than they may be long."""

import asyncio
from typing import Any

import pytest
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request

from engines.ports import EngineError
from voice.doors.uploads import (
    GRACE_S,
    STALL_S,
    TooLargeError,
    TooSlowError,
    read_body,
    read_form,
)
from voice.wire.realtime_errors import WireError

BOUNDARY = "b0undary"
LEAST = 100


def request_of(*chunks: bytes, kind: str = "", ends: bool = True, **headers: str) -> Request:
    """A request whose body comes in these chunks."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append(
        {"type": "http.request", "body": b"", "more_body": False}
        if ends
        else {"type": "http.disconnect"}
    )

    async def receive() -> Any:
        return messages.pop(0)

    kind = kind or f"multipart/form-data; boundary={BOUNDARY}"
    given = {"content-type": kind, **{name.replace("_", "-"): v for name, v in headers.items()}}
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive)


def part(name: str, value: bytes, filename: str | None = None) -> bytes:
    named = f'; filename="{filename}"' if filename is not None else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'
    return head.encode() + value + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


async def test_a_body() -> None:
    assert await read_body(request_of(b"ab", b"cd"), 4, LEAST) == b"abcd"


async def test_a_body_that_says_it_is_too_long_is_not_begun() -> None:
    request = request_of(b"x" * 100, content_length="100")
    with pytest.raises(TooLargeError, match="99 bytes"):
        await read_body(request, 99, LEAST)
    assert (await request.receive())["body"] == b"x" * 100


async def test_a_body_that_becomes_too_long_is_left_there() -> None:
    request = request_of(b"x" * 60, b"x" * 60, b"x" * 60)
    with pytest.raises(TooLargeError):
        await read_body(request, 100, LEAST)
    assert (await request.receive())["body"] == b"x" * 60


async def test_a_client_that_goes() -> None:
    with pytest.raises(ClientDisconnect):
        await read_body(request_of(b"ab", ends=False), 100, LEAST)


def dripping(pause_s: float, *chunks: bytes) -> Request:
    """A client that sends a chunk, and waits."""
    request = request_of(*chunks)
    receive = request.receive

    async def slowly() -> Any:
        await asyncio.sleep(pause_s)
        return await receive()

    return Request(request.scope, slowly)


@pytest.mark.virtual_clock
async def test_a_body_that_trickles_is_given_up() -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(TooSlowError, match="100 bytes a second"):
        await read_body(dripping(1.0, *[b"x"] * 1_000), 9_999, LEAST)
    assert asyncio.get_running_loop().time() - began == pytest.approx(GRACE_S, abs=0.2)


@pytest.mark.virtual_clock
async def test_a_body_that_keeps_up_may_come_in_bursts() -> None:
    chunks = [b"x" * 1_000] * 20
    body = await read_body(dripping(9.0, *chunks), 99_999, LEAST)  # 111 a second
    assert len(body) == 20_000


@pytest.mark.virtual_clock
async def test_a_client_that_stops_sending() -> None:
    request = request_of(b"x" * 100_000)
    receive, began = request.receive, asyncio.get_running_loop().time()

    async def once() -> Any:
        message = await receive()
        return message if message["body"] else await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await read_body(Request(request.scope, once), 100_000, LEAST)
    assert asyncio.get_running_loop().time() - began == pytest.approx(STALL_S)


@pytest.mark.parametrize("charset", ["utf-7", "undefined", "punycode", "x" * 5_000])
async def test_a_form_in_no_plain_charset(charset: str) -> None:
    kind = f"multipart/form-data; boundary={BOUNDARY}; charset={charset}"
    data = part("language", b"+2AA-") + part("file", b"RIFF", "a.wav") + END
    with pytest.raises(WireError, match="UTF-8"):
        async with read_form(request_of(data, kind=kind), 100, LEAST):
            pass


async def test_a_form_whose_type_is_written_otherwise() -> None:
    kind = f'Multipart/Form-Data; charset="UTF-8"; boundary="{BOUNDARY}"'
    data = part("language", "ä".encode()) + part("file", b"RIFF", "a.wav") + END
    async with read_form(request_of(data, kind=kind), 100, LEAST) as form:
        assert form.fields == [("language", "ä")]


async def test_a_form() -> None:
    data = part("model", b"x") + part("file", b"RIFF" * 9, "a.wav") + part("t[]", b"1") + END
    chunks = [data[at : at + 7] for at in range(0, len(data), 7)]
    async with read_form(request_of(*chunks), 999, LEAST) as form:
        assert form.fields == [("model", "x"), ("t[]", "1")]
        assert form.file.read() == b"RIFF" * 9
        assert form.file.seek(0) == 0
    assert form.file.closed


async def test_a_large_file_lies_on_disk() -> None:
    data = part("file", b"x" * 3_000_000, "a.wav") + END
    async with read_form(request_of(data), 4_000_000, LEAST) as form:
        assert isinstance(form.file.fileno(), int)
    assert form.file.closed


@pytest.mark.parametrize(
    ("data", "code", "param"),
    [
        (part("model", b"x") + END, "missing_required_parameter", "file"),
        (part("file", b"x") + END, "missing_required_parameter", "file"),
        (part("file", b"x", "a") + part("file", b"y", "b") + END, "invalid_form", None),
        (part("prompt", b"x" * 100_000) + END, "invalid_form", None),
        (b"".join(part(f"f{n}", b"") for n in range(100)) + END, "invalid_form", None),
        (b"--nonsense\r\n\r\n", "invalid_form", None),
        (b"", "missing_required_parameter", "file"),
    ],
)
async def test_forms_that_are_refused(data: bytes, code: str, param: str | None) -> None:
    with pytest.raises(WireError) as refused:
        async with read_form(request_of(data), 999_999, LEAST):
            pass
    assert (refused.value.code, refused.value.param) == (code, param)


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "text/plain"])
async def test_what_is_no_form(kind: str) -> None:
    with pytest.raises(WireError):
        async with read_form(request_of(b"{}", kind=kind), 999, LEAST):
            pass


@pytest.mark.parametrize("size", [1_000, 2_000_000])
async def test_a_file_that_is_too_long_leaves_nothing_open(size: int) -> None:
    data = part("file", b"x" * size, "a.wav") + END
    with pytest.raises(TooLargeError):
        async with read_form(request_of(data), 999, LEAST):
            pass


async def test_a_full_disk_is_told_with_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(UploadFile, "write", full)
    request = request_of(part("file", b"x" * 100, "a.wav"), END)
    told = r"server: the upload cannot be kept in /.*No space left on device.*make room there"
    with pytest.raises(EngineError, match=told) as refused:
        async with read_form(request, 1000, LEAST):
            pass
    assert refused.value.code == "unavailable"


async def test_a_client_that_goes_in_the_middle_of_its_file() -> None:
    with pytest.raises(ClientDisconnect):
        data = part("file", b"x" * 2_000_000, "a")
        async with read_form(request_of(data, ends=False), 9**9, LEAST):
            pass
