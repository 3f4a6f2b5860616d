"""A whole run: processes of callers, and a server that is watched."""

import asyncio

import pytest

from loadtest.habits import Habits
from loadtest.load import LoadError, Options, arrivals, run
from tests.loadtest.calling import speech_folder
from tests.loadtest.pretended import pretended


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Nobody waits a second for the next look."""
    monkeypatch.setattr("loadtest.load._LOOK_EVERY_S", 0.1)


def options(url: str, folder, **changes) -> Options:
    usual = {
        "callers": 3,
        "seconds": 0.7,
        "url": url,
        "speech": str(folder),
        "processes": 2,
        "habits": Habits(barge_ins=0.0, think_ms=(0.0, 50.0), patience_s=1.0),
    }
    return Options(**(usual | changes))


def test_callers_arrive_spread_over_the_ramp_and_the_frame():
    made = arrivals(options("ws://x", "d", callers=40, ramp_s=10.0))
    times = [arrival.at_s for arrival in made]
    assert times == sorted(times)
    assert all(n * 0.25 <= at <= (n + 1) * 0.25 for n, at in enumerate(times))
    assert len({arrival.slot for arrival in made}) > 1


def test_a_burst_is_at_once_and_in_step():
    made = arrivals(options("ws://x", "d", callers=40, ramp_s=10.0, arrivals="burst"))
    assert {(arrival.at_s, arrival.slot) for arrival in made} == {(0.0, 0)}


def test_some_callers_are_silent():
    habits = Habits(silent=0.25)
    made = arrivals(options("ws://x", "d", callers=8, habits=habits))
    assert sum(arrival.silent for arrival in made) == 2


async def test_processes_share_the_callers_and_report_as_one(tmp_path):
    looks = []
    async with pretended() as server:
        made = await run(options(server.url, speech_folder(tmp_path, 0.3)), looks.append)
        assert server.calls == 3
    assert looks
    assert set(made.progress) == {0, 1}
    assert all(progress.last for progress in made.progress.values())
    assert {turn.call for turn in made.turns} == {0, 1, 2}
    assert made.troubles == []
    assert not made.interrupted
    assert max(sample.open for sample in made.samples) == 3
    assert 0 < made.own_cpu_s() < 5
    assert made.total("session_s") > 1.5


async def test_a_run_that_is_interrupted_keeps_what_it_has(tmp_path):
    async with pretended() as server:
        began = asyncio.Event()
        wanted = options(server.url, speech_folder(tmp_path, 0.3), seconds=600.0)
        task = asyncio.ensure_future(run(wanted, lambda made: made.turns and began.set()))
        async with asyncio.timeout(20):
            await began.wait()
            task.cancel()
            made = await task
    assert made.interrupted
    assert {call.end for call in made.calls} == {"done"}
    assert made.turns


async def test_a_run_that_is_given_up_says_why_and_ends_early(tmp_path):
    async with pretended() as server:
        wanted = options(server.url, speech_folder(tmp_path, 0.3), seconds=600.0)
        async with asyncio.timeout(20):
            made = await run(
                wanted, lambda _made: None, lambda made: "no use" if made.turns else ""
            )
    assert made.given_up == "no use"
    assert not made.interrupted


async def test_a_run_that_is_interrupted_before_it_begins_leaves_nothing(tmp_path, monkeypatch):
    import loadtest.load as module

    begun, made = asyncio.Event(), []
    start = module._Processes._start

    async def remember(self):
        made.append(await start(self))
        begun.set()
        return made[-1]

    monkeypatch.setattr(module._Processes, "_start", remember)
    wanted = options("ws://127.0.0.1:1", speech_folder(tmp_path, 0.3), processes=1)
    task = asyncio.ensure_future(run(wanted, lambda _made: None))
    async with asyncio.timeout(20):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert made[0].returncode is not None


async def test_recordings_that_are_not_there_end_the_run_before_it_begins(tmp_path):
    with pytest.raises(LoadError, match="there is no such folder"):
        await run(options("ws://127.0.0.1:1", tmp_path / "gone"), lambda _made: None)


async def test_a_server_that_nobody_reaches_any_more_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("loadtest.load._DEAD_S", 1.0)
    wanted = options("ws://127.0.0.1:1", speech_folder(tmp_path, 0.3), seconds=600.0)
    async with asyncio.timeout(30):
        made = await run(wanted, lambda _made: None)
    [trouble] = made.troubles
    assert "nobody has reached the server" in trouble


async def test_a_server_whose_process_ended_ends_the_run(tmp_path):
    async with pretended() as server:
        gone = await asyncio.create_subprocess_exec("true")
        await gone.wait()
        wanted = options(
            server.url, speech_folder(tmp_path, 0.3), seconds=600.0, pid=gone.pid, processes=1
        )
        async with asyncio.timeout(30):
            made = await run(wanted, lambda _made: None)
    assert "the server's process ended" in made.troubles[0]


async def test_a_process_of_callers_that_is_killed_is_told_of(tmp_path, monkeypatch):
    import loadtest.load as module

    async with pretended() as server:
        wanted = options(server.url, speech_folder(tmp_path, 0.3), processes=1, seconds=600.0)
        spawned = []
        start = module._Processes._start

        async def remember(self):
            spawned.append(await start(self))
            return spawned[-1]

        monkeypatch.setattr(module._Processes, "_start", remember)
        async with asyncio.timeout(30):
            made = await run(wanted, lambda _made: spawned[0].kill())
    assert "ended before its time: exit status -9" in made.troubles[0]
