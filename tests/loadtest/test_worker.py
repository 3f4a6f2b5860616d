"""A process of callers, in the test's own loop, against a server of a few lines."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time

import pytest

from loadtest.habits import Habits
from loadtest.records import (
    Arrival,
    CallRecord,
    Plan,
    Progress,
    Trouble,
    TurnRecord,
    decode,
    encode,
)
from loadtest.worker import Crowd, load
from tests.loadtest.calling import speech_folder
from tests.loadtest.pretended import pretended

QUICK = Habits(barge_ins=0.0, think_ms=(0.0, 50.0), patience_s=1.0)


@pytest.fixture
def impatient(monkeypatch):
    """Callers who call again at once."""
    monkeypatch.setattr("loadtest.habits.Character.redial_s", lambda _self: 0.01)


def plan(url: str, folder, callers: int = 2, **changes) -> Plan:
    usual = {
        "url": url,
        "speech": str(speech_folder(folder, seconds=0.3)),
        "wire": "realtime",
        "arrivals": [Arrival(number, 0.0, number) for number in range(callers)],
        "habits": QUICK,
        "end_s": 0.9,
        "drain_s": 1.0,
        "seed": 1,
    }
    return Plan(**(usual | changes))


async def called(made: Plan, stop: asyncio.Event | None = None) -> dict[type, list]:
    told: dict[type, list] = {TurnRecord: [], CallRecord: [], Progress: []}
    crowd = Crowd(
        made, load(made), time.monotonic(), lambda record: told[type(record)].append(record)
    )
    async with asyncio.timeout(20):
        await crowd.run(stop or asyncio.Event())
    return told


async def test_callers_talk_in_real_time_and_tell_of_it(tmp_path):
    async with pretended() as server:
        told = await called(plan(server.url, tmp_path, end_s=1.5))
    turns = told[TurnRecord]
    assert {turn.call for turn in turns} == {0, 1}
    assert {turn.outcome for turn in turns} <= {"answered", "unfinished"}
    first = next(turn for turn in turns if turn.outcome == "answered")
    # The clip is 300 ms long; the answer comes with the first silent frame after it.
    assert -5 < first.first_audio_ms < 200
    assert first.audio_ms == 80.0
    assert first.heard == "one"
    assert [call.end for call in told[CallRecord]] == ["done", "done"]
    last = told[Progress][-1]
    assert last.last
    assert last.session_s > 1.5
    frames = sum(call.frames for call in told[CallRecord])
    assert frames == pytest.approx(50 * last.session_s, rel=0.15)
    assert sum(last.late.values()) == frames


async def test_refused_callers_wait_and_are_told_of(tmp_path):
    async with pretended(refuse=503) as server:
        told = await called(plan(server.url, tmp_path))
    assert {call.end for call in told[CallRecord]} == {"refused"}
    call = told[CallRecord][0]
    assert (call.status, call.why) == (503, "server_full: All calls are taken.")
    assert call.answer_ms > 0
    # They were told to come back after 3 s, and the run is over by then.
    assert server.calls == 0
    assert len(told[CallRecord]) == 2


async def test_a_caller_who_was_cut_off_calls_again(tmp_path, impatient):
    async with pretended(drop_after=10) as server:
        told = await called(plan(server.url, tmp_path, callers=1))
        assert server.calls >= 2
    assert "lost" in {call.end for call in told[CallRecord]}
    assert {turn.outcome for turn in told[TurnRecord]} <= {"unfinished"}


async def test_hang_ups_in_mid_word_are_followed_by_another_call(tmp_path, impatient):
    habits = Habits(barge_ins=0.0, hang_ups=1.0, think_ms=(0.0, 0.0))
    async with pretended() as server:
        told = await called(plan(server.url, tmp_path, callers=1, habits=habits, end_s=1.5))
        assert server.calls >= 2
    assert told[CallRecord][0].end == "hung_up"
    assert told[TurnRecord][0].outcome == "hung_up"


async def test_nobody_calls_twice_where_that_is_not_wanted(tmp_path):
    async with pretended(drop_after=5) as server:
        await called(plan(server.url, tmp_path, callers=1, redial=False))
        assert server.calls == 1


async def test_a_stop_ends_the_run_with_what_there_is(tmp_path):
    async with pretended() as server:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, stop.set)
        began = time.monotonic()
        told = await called(plan(server.url, tmp_path, end_s=60.0), stop)
    assert time.monotonic() - began < 5
    assert [call.end for call in told[CallRecord]] == ["done", "done"]
    assert told[Progress][-1].last


async def test_silent_callers_hold_their_line(tmp_path):
    arrivals = [Arrival(0, 0.0, 0, silent=True)]
    async with pretended() as server:
        told = await called(plan(server.url, tmp_path, arrivals=arrivals, end_s=0.5))
    [call] = told[CallRecord]
    assert call.silent
    assert call.frames > 10
    assert told[TurnRecord] == []


async def test_the_model_is_part_of_the_address(tmp_path):
    async with pretended() as server:
        await called(plan(server.url, tmp_path, model="a b", end_s=0.1))
    assert server.paths[0] == "/v1/realtime?model=a%20b"


@contextlib.contextmanager
def process():
    with subprocess.Popen(
        [sys.executable, "-m", "loadtest.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as made:
        yield made


def test_a_process_that_cannot_read_its_recordings_says_so(tmp_path):
    made = plan("ws://127.0.0.1:1", tmp_path)
    (tmp_path / "transcripts.json").write_text(json.dumps({"gone.wav": "gone"}))
    with process() as worker:
        told, _ = worker.communicate(encode(made) + b"\n", timeout=30)
    [line] = told.splitlines()
    trouble = decode(line)
    assert isinstance(trouble, Trouble)
    assert "gone.wav" in trouble.message
    assert worker.returncode == 1


def test_a_process_whose_reporter_is_gone_ends(tmp_path):
    with process() as worker:
        told, _ = worker.communicate(
            encode(plan("ws://127.0.0.1:1", tmp_path, end_s=600.0)) + b"\n", timeout=30
        )
    assert isinstance(decode(told.splitlines()[0]), Progress)
    assert worker.returncode == 0
