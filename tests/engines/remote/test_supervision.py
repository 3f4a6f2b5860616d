"""A place is kept alive: children that die, hang, or never get warm."""

import asyncio
import logging
import os
import signal
from dataclasses import replace

import pytest

from engines.audio import Pcm
from engines.ports import AsrRequest, EngineError, Load, SpeechRequest
from engines.remote.client import ProcessLost
from engines.remote.wire import Stranger

HELLO = SpeechRequest("Hello.")


def status(pool):
    (only,) = pool.processes
    return only


async def test_a_process_is_started_with_the_environment_of_its_place(
    house, place, counting, all_of, caplog
):
    caplog.set_level(logging.INFO)
    pool = await house.pool(counting("asr", gives="place", items=1), place("slice 3"))
    (transcript,) = await all_of(pool, AsrRequest(Pcm.silence(100, 16_000)))
    assert transcript.text == "slice 3"
    assert (status(pool).name, status(pool).state, status(pool).restarts) == ("slice 3", "ready", 0)
    assert status(pool).pid not in (None, os.getpid())
    assert status(pool).beat_age_s < 10
    assert "slice 3: counting_engine warms up" in caplog.text


@pytest.mark.parametrize(
    ("breaks", "engine", "code", "message"),
    [
        ("refuses", "counting", "unauthorized", r"the key is wrong: get another one \(at a\)"),
        ("bug", "counting_engine", "failed", r"KeyError\('forgotten'\): see the log of a"),
        (
            "dies",
            "counting_engine",
            "unavailable",
            "process at a ended with status 7 before it was warm",
        ),
    ],
)
async def test_a_process_that_never_gets_warm_says_why(
    house, place, counting, breaks, engine, code, message
):
    pool = house.cold_pool(counting("tts", breaks=breaks), place("a"))
    with pytest.raises(EngineError, match=message) as caught:
        await pool.warm_up()
    assert (caught.value.engine, caught.value.code) == (engine, code)
    assert (status(pool).state, status(pool).pid) == ("closed", None)


@pytest.mark.parametrize("times", [1, 100_000], ids=["a line", "too long a line"])
async def test_what_is_printed_before_the_process_begins_does_no_harm(
    house, place, counting, tmp_path, all_of, times
):
    (tmp_path / "sitecustomize.py").write_text(f"print('welcome ' * {times})\n")
    home = place("a")
    path = f"{tmp_path}{os.pathsep}{home.environment['PYTHONPATH']}"
    home = replace(home, environment={**home.environment, "PYTHONPATH": path})
    pool = await house.pool(counting("tts", items=2), home)
    assert len(await all_of(pool, HELLO)) == 2


async def test_a_process_that_takes_too_long_to_get_warm_is_ended(house, place, counting):
    pool = house.cold_pool(counting("tts", breaks="hangs"), place("a"), warm_up_s=0.5)
    with pytest.raises(EngineError, match=r"was not warm after 0\.5 s"):
        await pool.warm_up()
    assert status(pool).pid is None


async def test_options_that_do_not_fit_are_told_by_the_process(house, place, counting):
    pool = house.cold_pool(counting("tts", item=3), place("a"))
    with pytest.raises(EngineError, match=r"no option item\. Did you mean items"):
        await pool.warm_up()


@pytest.mark.parametrize(
    ("number", "called"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN + 6, "signal 40")]
)
async def test_a_process_that_is_killed_is_started_again(
    house, place, counting, all_of, eventually, caplog, number, called
):
    pool = await house.pool(counting("tts", items=5), place("a"))
    first = status(pool).pid
    os.kill(first, number)
    await eventually(lambda: status(pool).restarts == 1 and status(pool).state == "ready")
    assert status(pool).pid != first
    assert len(await all_of(pool, HELLO)) == 5
    assert f"its process ended by {called}" in caplog.text


async def test_requests_fail_at_once_when_their_process_dies(house, place, counting, eventually):
    pool = await house.pool(counting("llm", gives="nothing"), place("a"))
    async with pool.open(HELLO), pool.open(HELLO):
        remote = pool._places[0].remote
        waiting = [asyncio.create_task(anext(remote.begin(HELLO))) for _ in range(3)]
        os.kill(status(pool).pid, signal.SIGKILL)
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [ProcessLost] * 3
    assert {result.code for result in results} == {"unavailable"}
    assert "its process is lost: its" in str(results[0])


async def test_a_process_that_hangs_is_killed_and_started_again(
    house, place, counting, eventually, all_of, caplog
):
    pool = await house.pool(counting("tts", items=5), place("a"), beat_s=0.05, missed_beats=20)
    first = status(pool).pid
    os.kill(first, signal.SIGSTOP)
    await eventually(lambda: status(pool).restarts >= 1 and status(pool).state == "ready")
    assert status(pool).pid != first
    assert len(await all_of(pool, HELLO)) == 5
    assert "it was silent for 1 s" in caplog.text


async def test_a_process_that_was_stopped_for_a_while_goes_on(house, place, counting, eventually):
    """Not taken for one whose model hangs: its clock went on, and it could do nothing."""
    pool = await house.pool(counting("tts", gives="nothing"), place("a"), stalled_s=1)
    pid, remote = status(pool).pid, pool._places[0].remote
    stream = remote.begin(HELLO)
    await eventually(lambda: remote._load.busy)
    os.kill(pid, signal.SIGSTOP)
    await eventually(lambda: remote.beat_age_s > 1.2)
    os.kill(pid, signal.SIGCONT)
    await eventually(lambda: remote.beat_age_s < 1)
    assert (remote.pid, status(pool).restarts) == (pid, 0)
    stream.close()


async def test_a_gateway_that_was_stopped_for_a_while_keeps_its_process(
    house, place, counting, eventually, all_of
):
    pool = await house.pool(counting("tts", items=5), place("a"), missed_beats=10)
    pid, remote = status(pool).pid, pool._places[0].remote
    remote._tick.cancel()
    await eventually(lambda: remote.beat_age_s > 0.5)  # it says nothing to who is gone
    remote._beat()
    await eventually(lambda: not remote.alive)
    assert len(await all_of(pool, HELLO)) == 5
    assert (status(pool).pid, status(pool).restarts) == (pid, 0)


async def test_a_process_that_forgot_its_gateway_and_refuses_it_is_started_again(
    house, place, counting, eventually
):
    pool = await house.pool(counting("tts"), place("a"), place_s=0.1)
    pid, remote = status(pool).pid, pool._places[0].remote
    os.kill(pid, signal.SIGSTOP)
    remote._hear(Stranger())
    await eventually(lambda: status(pool).pid not in (pid, None))


async def test_a_model_that_hangs_is_killed_and_started_again(
    house, place, counting, eventually, caplog
):
    pool = await house.pool(counting("tts", gives="nothing"), place("a"), stalled_s=0.2)
    first = status(pool).pid
    stream = pool._places[0].remote.begin(HELLO)
    with pytest.raises(ProcessLost, match="it hangs"):
        await anext(stream)
    stream.close()
    await eventually(lambda: status(pool).pid not in (first, None))


async def test_a_process_that_does_not_come_back_is_tried_for_ever(
    house, place, counting, eventually, all_of, caplog, tmp_path
):
    broken = tmp_path / "broken"
    spec = counting("tts", items=5, breaks="refuses", while_there=str(broken))
    pool = await house.pool(spec, place("a"))
    broken.touch()
    os.kill(status(pool).pid, signal.SIGKILL)
    await eventually(lambda: status(pool).restarts == 3)
    assert "a: has failed 2 times in a row: counting: the key is wrong" in caplog.text
    assert "started again in 0.01 s" in caplog.text
    assert "started again in 0.04 s" in caplog.text
    broken.unlink()
    assert len(await all_of(pool, HELLO)) == 5


async def test_a_process_that_ends_in_order_is_started_again(house, place, counting, eventually):
    pool = await house.pool(counting("tts"), place("a"))
    os.kill(status(pool).pid, signal.SIGTERM)
    await eventually(lambda: status(pool).restarts == 1 and status(pool).state == "ready")


async def test_closing_ends_the_process_in_order(house, place, counting, caplog):
    pool = await house.pool(counting("tts"), place("a"))
    process = pool._places[0]._process
    await pool.close()
    assert process.returncode == 0
    assert (status(pool).state, status(pool).load) == ("closed", Load(slots=4))


async def test_closing_does_not_wait_for_a_process_that_hangs(house, place, counting, monkeypatch):
    monkeypatch.setattr("engines.remote.supervision._GRACE_S", 0.1)
    pool = await house.pool(counting("tts"), place("a"), drain_s=0.1)
    process = pool._places[0]._process
    os.kill(process.pid, signal.SIGSTOP)
    await pool.close()
    assert process.returncode == -signal.SIGKILL
