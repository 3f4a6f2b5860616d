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
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that ends in ``chunk``: its lines joined by newlines.

        Raises ValueError where an event grows past 1 MiB.
        """
        text = self._rest + chunk
        # A CR at the very end may be the first half of a CRLF: it waits for the next chunk.
        waiting = b"\r" if text.endswith(b"\r") else b""
        *lines, last = _LINE_END.split(text[: len(text) - len(waiting)])
        self._rest = last + waiting
        events = [event for line in lines if (event := self._take(line)) is not None]
        if self._size + len(self._rest) > _LIMIT:
            raise ValueError(f"an event is larger than {_LIMIT} bytes")
        return events

    def finish(self) -> list[bytes]:
        """The event that the last empty line is missing of, if any: some servers omit it."""
        events = [self._take(line) for line in (*_LINE_END.split(self._rest), b"")]
        self._rest = b""
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
