"""What all clients have in common: where the server is, the caller's voice, and what is reported.

Runs in the clients' own environments, so it needs nothing but Python. A step ends by a line of
JSON on the standard output; the first one that fails ends the client.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HTTP = os.environ.get("CONFORMANCE_URL", "")
KEY = os.environ.get("CONFORMANCE_KEY", "")
WS = HTTP.replace("http", "ws", 1)
MODEL = "gpt-realtime"
RATE = 24_000
FRAME_MS = 40
FRAME = RATE * 2 * FRAME_MS // 1000
PATIENCE_S = 20.0

HEARD = "please tell me something about this server"
STORY = "Tell me a long story."
WEATHER = "What is the weather in Bergen?"
TYPED = "Hello, this is typed."
ANSWER = "This is the answer of a model that was written for tests."


def speech() -> bytes:
    """The caller's words: 16-bit mono at RATE."""
    return Path(os.environ["CONFORMANCE_SPEECH"]).read_bytes()


class StepError(Exception):
    """Something is not as it should be."""


def check(condition: object, what: str) -> None:
    """Raises StepError where it is not so."""
    if not condition:
        raise StepError(what)


@contextmanager
def step(name: str) -> Iterator[list[str]]:
    """A step of the run: what is put into the list is told with it."""
    told: list[str] = []
    began = time.monotonic()
    try:
        yield told
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        sys.stderr.write(traceback.format_exc())
        _tell(name, False, f"{type(error).__name__}: {error}"[:400], began)
        sys.stderr.flush()
        os._exit(1)  # frameworks in the middle of something may take long to end
    _tell(name, True, ", ".join(told), began)


def _tell(name: str, passed: bool, told: str, began: float) -> None:
    line = {"step": name, "passed": passed, "told": told, "s": round(time.monotonic() - began, 1)}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Microphone:
    """Sends a frame at a time in real time: what is to be said, and silence otherwise."""

    def __init__(self, send: Callable[[bytes], Awaitable[Any]]) -> None:
        self._send = send
        self._frames: deque[bytes] = deque()

    def say(self, audio: bytes) -> None:
        """Say this as soon as all is said that came before."""
        whole = range(0, len(audio) - FRAME + 1, FRAME)
        self._frames.extend(audio[start : start + FRAME] for start in whole)

    async def run(self) -> None:
        """Until it is cancelled."""
        due = time.monotonic()
        while True:
            await self._send(self._frames.popleft() if self._frames else bytes(FRAME))
            due += FRAME_MS / 1000
            await asyncio.sleep(max(0.0, due - time.monotonic()))


class Noted:
    """Things that have happened, in order, and who waits for the next of a kind."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Any]] = []
        self._changed = asyncio.Event()

    def add(self, kind: str, thing: Any = None) -> None:
        self.all.append((kind, thing))
        self._changed.set()

    def mark(self) -> int:
        """The place of what comes next."""
        return len(self.all)

    def since(self, mark: int, kind: str) -> list[Any]:
        return [thing for each, thing in self.all[mark:] if each == kind]

    async def wait(self, kind: str, mark: int, count: int = 1) -> Any:
        """The first of this kind from the mark on; ``count``: once there are so many."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(found := self.since(mark, kind)) < count:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            kinds = [each for each, _ in self.all[mark:]]
            last = [k for n, k in enumerate(kinds) if n == 0 or kinds[n - 1] != k][-12:]
            raise StepError(f"no {kind} within {PATIENCE_S:.0f} s; last: {last}") from None
        return found[0]


def main(run: Callable[[], Awaitable[None]]) -> None:
    """Run a client to its end, and leave no framework the time to say goodbye: some never do."""

    async def whole() -> None:
        await run()
        sys.stdout.flush()
        os._exit(0)

    asyncio.run(whole())
