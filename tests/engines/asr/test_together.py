"""Clips of files, heard together by an ensemble that tells who was with whom."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from engines.asr.guard import Heard, Sound
from engines.asr.listening import Clip, Hearing, Listener, Threaded
from engines.asr.together import Kind, Together, Waiting, chosen, unurgently
from engines.audio import Pcm
from engines.ports import AsrRequest, EngineError, Priority

SOUND = Sound(1_000, -20)


class Trying:
    def __init__(self, clip: Clip) -> None:
        self.clip = clip
        self.kind: Kind = (0.0, clip.prompt)
        self.hearing: Hearing | None = None


class Choir:
    """Each batch waits for ``go``; clips whose prompt begins with "again" need a warmer attempt."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.kinds: list[Kind] = []
        self.go = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)

    def begin(self, clip: Clip) -> Trying:
        if clip.prompt == "refused":
            raise EngineError("choir", "bad_request", "not this one")
        return Trying(clip)

    def go_on(self, clips: Sequence[Trying]) -> None:
        names = [str(each.clip.language) for each in clips]
        self.batches.append(names)
        self.kinds.append(clips[0].kind)
        self.entered.release()
        assert self.go.acquire(timeout=20)
        if "broken" in names:
            raise EngineError("choir", "failed", "all of it")
        for each in clips:
            if each.clip.prompt.startswith("again") and not each.kind[0]:
                each.kind = (0.2, "")
            else:
                each.hearing = Hearing(Heard(str(each.clip.language), SOUND), "en")


def clip(name: str, seconds: float = 1.0, prompt: str = "") -> Clip:
    return Clip(np.zeros(int(16_000 * seconds), np.float32), name, prompt)


@pytest.fixture
async def choir() -> AsyncIterator[tuple[Choir, Together[Trying]]]:
    made = Choir()
    together = Together[Trying]("choir", lambda: made, threads=1, batch=3)
    await together.warm_up()
    yield made, together
    made.go.release(100)
    await together.close()


async def begun(choir: Choir) -> None:
    assert await asyncio.to_thread(choir.entered.acquire, timeout=20)


def asked(together: Together[Trying], *clips: Clip) -> list[asyncio.Task[Hearing]]:
    return [asyncio.ensure_future(together.hear(each, Priority.BATCH)) for each in clips]


async def test_what_waits_together_is_heard_together(choir: Any) -> None:
    made, together = choir
    first = asked(together, clip("a"))
    await begun(made)
    others = asked(together, *(clip(name) for name in "bcdef"))
    await asyncio.sleep(0)
    made.go.release(3)
    heard = await asyncio.gather(*first, *others)
    assert [each.heard.text for each in heard] == list("abcdef")
    assert made.batches == [["a"], ["b", "c", "d"], ["e", "f"]]


async def test_a_clip_that_was_not_believed_goes_on_with_its_like(choir: Any) -> None:
    made, together = choir
    first = asked(together, clip("a"))
    await begun(made)
    others = asked(together, clip("b", prompt="again"), clip("c", prompt="again"), clip("d"))
    await asyncio.sleep(0)
    made.go.release(10)
    await asyncio.gather(*first, *others)
    assert made.batches == [["a"], ["b", "c"], ["b", "c"], ["d"]]
    assert made.kinds == [(0.0, ""), (0.0, "again"), (0.2, ""), (0.0, "")]


async def test_one_that_cannot_be_heard_harms_nobody_else(choir: Any) -> None:
    made, together = choir
    first = asked(together, clip("a"))
    await begun(made)
    bad, other = asked(together, clip("b", prompt="refused"), clip("c"))
    made.go.release(3)
    with pytest.raises(EngineError, match="not this one"):
        await bad
    assert (await other).heard.text == "c"
    await asyncio.gather(*first)


async def test_a_batch_that_fails_is_told_to_all_and_the_next_one_goes_on(choir: Any) -> None:
    made, together = choir
    first = asked(together, clip("a"))
    await begun(made)
    failing = asked(together, clip("broken"), clip("b"))
    made.go.release(2)
    told = await asyncio.gather(*failing, return_exceptions=True)
    assert [str(each) for each in told] == ["choir: all of it"] * 2
    made.go.release()
    assert (await asked(together, clip("c"))[0]).heard.text == "c"
    await asyncio.gather(*first)


async def test_who_has_left_is_not_heard(choir: Any) -> None:
    made, together = choir
    first, second, third = asked(together, clip("a"), clip("b"), clip("c", prompt="x"))
    await begun(made)
    third.cancel()
    await asyncio.gather(third, return_exceptions=True)
    made.go.release(5)
    await asyncio.gather(first, second)
    assert not any("c" in batch for batch in made.batches)


async def test_a_model_that_cannot_be_loaded_says_so_each_time() -> None:
    def load() -> Choir:
        raise EngineError("choir", "unavailable", "no such model")

    together = Together[Trying]("choir", load, threads=2, batch=3)
    for _ in range(2):
        with pytest.raises(EngineError, match="no such model"):
            await together.hear(clip("a"), Priority.BATCH)
    await together.close()


async def test_files_wait_for_each_other_and_calls_for_no_file(choir: Any) -> None:
    made, together = choir
    calls = Threaded("calls", lambda: lambda clip: Hearing(Heard("call", clip.sound), "en"))
    listener = Listener("both", calls, together)
    await listener.warm_up()
    swell = np.where(np.arange(32_000) % 9_600 < 4_800, 0.1, 0.01)
    pcm = Pcm.from_floats(np.random.default_rng(5).standard_normal(32_000) * swell, 16_000)

    async def text_of(priority: Priority) -> str:
        async with listener.open(AsrRequest(pcm, "en", priority=priority)) as given:
            return (await anext(given)).text

    files = [asyncio.ensure_future(text_of(Priority.BATCH)) for _ in range(9)]
    await begun(made)
    for priority in (Priority.FINAL, Priority.PARTIAL):
        assert await text_of(priority) == "call"
    assert not any(each.done() for each in files)
    made.go.release(20)
    assert await asyncio.gather(*files) == ["en"] * 9
    await listener.close()


# --- who goes next --------------------------------------------------------------------------


def waiting(*lengths: float, prompts: Sequence[str] = ()) -> list[Waiting[Trying]]:
    prompts = prompts or [""] * len(lengths)
    return [
        Waiting(clip(str(n), length, prompt), n)
        for n, (length, prompt) in enumerate(zip(lengths, prompts, strict=True))
    ]


@pytest.mark.parametrize(
    ("lengths", "prompts", "expected"),
    [
        ((), (), []),
        ((1, 1, 1, 1), (), [0, 1, 2]),
        ((5, 9, 4, 6, 20), (), [0, 2, 3]),
        ((5, 5, 5), ("a", "b", "a"), [0, 2]),
        ((27, 28, 1), (), [0]),
        ((20, 2, 22, 21), (), [0, 3]),
        ((60, 1), (), [0]),
    ],
)
def test_the_oldest_goes_with_those_nearest_to_it(
    lengths: Sequence[float], prompts: Sequence[str], expected: list[int]
) -> None:
    assert [each.arrival for each in chosen(waiting(*lengths, prompts=prompts), 3)] == expected


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has urgency for single threads")
def test_what_is_loaded_unurgently_has_threads_of_no_urgency() -> None:
    def urgencies() -> list[int]:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(_own_niceness()))
        thread.start()
        thread.join()
        return [_own_niceness(), *found]

    before = _own_niceness()
    assert unurgently(urgencies) == [19, 19]
    assert _own_niceness() == before
    with pytest.raises(ValueError, match="told"):
        unurgently(_failing)


def _own_niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def _failing() -> Callable[[], None]:
    raise ValueError("told")
