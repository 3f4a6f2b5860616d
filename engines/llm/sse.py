"""Server-sent events out of the bytes of a response, wherever those happen to be cut.

WHATWG HTML, "Server-sent events", section 9.2.6. Only the data matter to us: names, ids and
retry times are read over.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_LIMIT: Final = 1 << 20
"""Bytes of one event. An answer's delta has a few hundred."""


class EventData:
    """Feed it bytes; it gives the data of the events that they complete."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that ends in ``chunk``: its lines joined by newlines.

        Raises ValueError where an event grows past 1 MiB.
        """
        if not chunk:
            return []
        fresh = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r")  # which may be the first half of a CRLF
        events = []
        # Only what is new is looked through: a line may come byte by byte.
        *ends, rest = _LINE_END.split(fresh)
        for end in ends:
            events.append(self._take(bytes(self._line + end)))
            self._line.clear()
        self._line += rest
        if self._size + len(self._line) > _LIMIT:
            raise ValueError(f"an event is larger than {_LIMIT} bytes")
        return [event for event in events if event is not None]

    def finish(self) -> list[bytes]:
        """The event that the last empty line is missing of, if any: some servers omit it."""
        events = [self._take(line) for line in (bytes(self._line), b"")]
        self._line.clear()
        return [event for event in events if event is not None]

    def _take(self, line: bytes) -> bytes | None:
        if line:
            field, _, value = line.partition(b":")
            if field.removeprefix(b"\xef\xbb\xbf") == b"data":
                self._data.append(value.removeprefix(b" "))
                self._size += len(value)
            return None
        if not self._data:
            return None
        event = b"\n".join(self._data)
        self._data.clear()
        self._size = 0
        return event
