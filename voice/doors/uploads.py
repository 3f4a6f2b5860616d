"""Bodies of requests, read no further than they may be long."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from engines.ports import EngineError
from voice.wire.realtime_errors import WireError

STALL_S: Final = 60.0
"""A client that sends or takes nothing for so long has gone."""

GRACE_S: Final = 10.0
"""So long a body may take however small it is: the first bytes are slow."""

_MOST_FIELDS: Final = 64
_FIELD_BYTES: Final = 64 * 1024
_HEADROOM: Final = 256 * 1024
"""What a form may have beside its file."""
_CHARSETS: Final = (b"utf-8", b"utf8", b"us-ascii", b"iso-8859-1")
"""Text in others may be no text once it is decoded, or make Python's codecs fail."""


class TooLargeError(Exception):
    """A body is longer than it may be; it has not been read."""


class TooSlowError(Exception):
    """A body trickles in: its client would hold a place for ever."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form: its fields as text, and its file, on disk if it is large."""

    fields: list[tuple[str, str]]
    file: BinaryIO


async def read_body(request: Request, most: int, least_per_s: int) -> bytes:
    """All of it, which comes by ``least_per_s`` bytes a second. Raises TooLargeError, TooSlowError,
    ClientDisconnect, and TimeoutError where it stops coming."""
    return b"".join([chunk async for chunk in _bounded(request, most, least_per_s)])


@asynccontextmanager
async def read_form(request: Request, most: int, least_per_s: int) -> AsyncIterator[Form]:
    """A multipart form with one file of ``most`` bytes, which is there until the context is left.
    Raises what ``read_body`` does, WireError, and EngineError where the disk does not take it."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data":
        raise WireError("invalid_content_type", "Send a multipart form: multipart/form-data.")
    if options.get(b"charset", b"utf-8").lower() not in _CHARSETS:
        raise WireError("invalid_content_type", "Send the form's text as UTF-8.")
    parser = MultiPartParser(
        request.headers,
        _bounded(request, most + _HEADROOM, least_per_s),
        max_files=1,
        max_fields=_MOST_FIELDS,
        max_part_size=_FIELD_BYTES,
    )
    try:
        parsed = await parser.parse()
    except MultiPartException as error:
        raise WireError("invalid_form", f"The form cannot be read: {error.message}") from error
    except TimeoutError:
        raise
    except OSError as error:
        told = f"the upload cannot be kept in {tempfile.gettempdir()} ({error}): make room there"
        raise EngineError("server", "unavailable", told) from error
    try:
        items = parsed.multi_items()
        file = parsed.get("file")
        if not isinstance(file, UploadFile):
            told = "Missing parameter 'file': it is required, as a file with a name."
            raise WireError("missing_required_parameter", told, "file")
        if file.size is not None and file.size > most:
            raise TooLargeError(_too_large(most))
        fields = [(name, value) for name, value in items if isinstance(value, str)]
        yield Form(fields, file.file)
    finally:
        await parsed.close()


async def _bounded(request: Request, most: int, least_per_s: int) -> AsyncGenerator[bytes, None]:
    """The body as it comes; what is too long by its own word is not begun. It may come in bursts,
    and must keep up by and large."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise TooLargeError(_too_large(most))
    size, chunks, loop = 0, request.stream(), asyncio.get_running_loop()
    began = loop.time()
    while True:
        due, gone = began + GRACE_S + size / least_per_s, loop.time() + STALL_S
        try:
            async with asyncio.timeout_at(min(due, gone)):
                chunk = await anext(chunks, None)
        except TimeoutError:
            if gone < due:
                raise
            told = f"The body comes too slowly: it must come by {least_per_s} bytes a second."
            raise TooSlowError(told) from None
        if chunk is None:
            return
        size += len(chunk)
        if size > most:
            raise TooLargeError(_too_large(most))
        yield chunk


def _too_large(most: int) -> str:
    return f"The request has more than the {most} bytes that it may have."
