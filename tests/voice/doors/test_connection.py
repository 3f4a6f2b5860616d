"""What all doors of WebSockets do at the end: wait for either side, and close."""

import asyncio
from typing import Any

import pytest

from voice.doors.connection import CLOSE_S, close, first_of

pytestmark = pytest.mark.virtual_clock


async def test_the_first_of_several_ends_the_wait_and_the_others() -> None:
    ended: list[str] = []

    async def wait(name: str, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            ended.append(name)

    now = asyncio.get_running_loop().time
    began = now()
    await first_of(wait("late", 60), wait("early", 1))
    assert (now() - began, ended) == (1, ["early", "late"])


class Socket:
    aborted = False

    def abort(self) -> None:
        self.aborted = True


async def test_a_close_is_waited_for_and_no_longer_than_that() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)
        await asyncio.sleep(0.0 if len(sent) == 1 else 60.0)

    polite, dead = Socket(), Socket()
    await close(send, polite, 1000)  # type: ignore[arg-type]
    began = asyncio.get_running_loop().time()
    await close(send, dead, 1011)  # type: ignore[arg-type]
    assert asyncio.get_running_loop().time() - began == CLOSE_S
    assert [message["code"] for message in sent] == [1000, 1011]
    assert (polite.aborted, dead.aborted) == (False, True)
