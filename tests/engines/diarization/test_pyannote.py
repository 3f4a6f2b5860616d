"""The diarizer: its process through good and bad days, and with the real models what it is for."""

import asyncio
import os
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import soundfile

from engines.audio import Pcm
from engines.diarization import pyannote
from engines.diarization.pyannote import Options, Pyannote, create
from engines.diarization.turns import DiarizationRequest, Pausable
from engines.diarization.worker import Setup
from engines.models import ModelStore
from engines.ports import EngineError
from loadtest.der import diarization_error, turns_of_rttm
from tests.engines.diarization.test_worker import RECIPE
from tests.fakes.diarization_worker import CRASH, FAIL, HANG

FAKE = (sys.executable, "-m", "tests.fakes.diarization_worker")
SOUND = Pcm(np.arange(7, 1_007, dtype=np.int16), 16_000)


@pytest.fixture
async def diarizer(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    made = Pyannote(Setup(RECIPE, 0), FAKE)
    yield made
    await made.close()


async def ask(diarizer, speakers=None, pcm=SOUND, **bounds):
    async with diarizer.open(DiarizationRequest(pcm, speakers, **bounds)) as given:
        return [diarization async for diarization in given]


async def test_one_process_does_one_recording_after_the_other(diarizer):
    await diarizer.warm_up()
    answers = await asyncio.gather(*(ask(diarizer) for _ in range(3)))
    assert all(len(answer) == 1 for answer in answers)
    processes = {answer[0].turns[0].speaker for answer in answers}
    assert len(processes) == 1
    [turn] = answers[0][0].exclusive
    assert (turn.start_ms, turn.end_ms) == (len(SOUND), 7)


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [({}, 1, 0), ({"speakers": 3}, 3, 3), ({"least": 2, "most": 4}, 2, 4), ({"least": 5}, 5, 0)],
)
async def test_how_many_speak_is_passed_on(diarizer, asked, least, most):
    [answer] = await ask(diarizer, **asked)
    assert (answer.turns[1].start_ms, answer.turns[1].end_ms) == (least, most)


@pytest.mark.parametrize("asked", [{"speakers": 0}, {"least": 3, "most": 2}, {"most": 0}])
async def test_impossible_numbers_of_speakers_are_refused(diarizer, asked):
    with pytest.raises(EngineError, match="cannot be") as refused:
        await ask(diarizer, **asked)
    assert refused.value.code == "bad_request"


async def test_another_rate_is_refused(diarizer):
    with pytest.raises(EngineError, match="resample it first") as refused:
        await ask(diarizer, pcm=Pcm(SOUND.samples, 8_000))
    assert refused.value.code == "bad_request"


async def test_sound_that_is_mapped_from_a_file_is_not_copied(diarizer, tmp_path, monkeypatch):
    file = tmp_path / "sound.pcm"
    file.write_bytes(SOUND.to_bytes())
    mapped = Pcm(np.memmap(file, np.int16, mode="r"), 16_000)
    monkeypatch.setattr(pyannote.tempfile, "NamedTemporaryFile", None)
    [answer] = await ask(diarizer, pcm=mapped)
    assert answer.turns[0].start_ms == len(SOUND)


async def test_a_part_of_what_is_mapped_is_copied(diarizer, tmp_path):
    file = tmp_path / "sound.pcm"
    file.write_bytes(SOUND.to_bytes())
    mapped = Pcm(np.memmap(file, np.int16, mode="r")[10:20], 16_000)
    [answer] = await ask(diarizer, pcm=mapped)
    assert (answer.turns[0].start_ms, answer.turns[0].end_ms) == (10, 17)


async def test_a_full_disk_is_told(diarizer, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pyannote.np, "ascontiguousarray", full)
    with pytest.raises(EngineError, match=r"No space left on device.*make room"):
        await ask(diarizer)


async def test_a_failure_is_told_and_the_process_goes_on(diarizer):
    [before] = await ask(diarizer)
    with pytest.raises(EngineError, match="it was asked to"):
        await ask(diarizer, FAIL)
    [after] = await ask(diarizer)
    assert before == after


async def test_a_process_that_dies_is_told_and_another_is_started(diarizer):
    [before] = await ask(diarizer)
    with pytest.raises(EngineError, match=r"in the middle of its work \(status 3\)"):
        await ask(diarizer, CRASH)
    [after] = await ask(diarizer)
    assert before.turns[0].speaker != after.turns[0].speaker


async def test_work_that_nobody_waits_for_ends_with_its_process(diarizer):
    [before] = await ask(diarizer)
    pid = int(before.turns[0].speaker)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await ask(diarizer, HANG)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    [after] = await ask(diarizer)
    assert after.turns[0].speaker != before.turns[0].speaker


async def test_models_that_cannot_be_had_are_told_each_time(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    diarizer = Pyannote(Setup(replace(RECIPE, device="none"), 0), FAKE)
    for _ in range(2):
        with pytest.raises(EngineError, match="no such device") as refused:
            await diarizer.warm_up()
        assert refused.value.code == "unavailable"
    await diarizer.close()


async def test_it_stands_still_while_it_is_paused(diarizer):
    assert isinstance(diarizer, Pausable)
    await diarizer.warm_up()
    diarizer.pause()
    asked = asyncio.create_task(ask(diarizer))
    done, _ = await asyncio.wait([asked], timeout=0.2)
    assert not done
    diarizer.resume()
    assert len(await asked) == 1


async def test_it_can_be_closed_while_it_is_paused(diarizer):
    await diarizer.warm_up()
    diarizer.pause()
    await diarizer.close()


def test_without_the_package_it_is_told_how_it_is_got(monkeypatch):
    monkeypatch.setattr(pyannote.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EngineError, match=r"needs pyannote.audio: `.*pip install") as refused:
        create(Options(), ModelStore())
    assert refused.value.code == "unavailable"


def test_without_the_models_it_is_told_how_they_are_got(tmp_path):
    with pytest.raises(EngineError, match="voice models pull pyannote-segmentation"):
        create(Options(), ModelStore(tmp_path))


def test_a_pipeline_of_ones_own_needs_no_models_of_the_store(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    assert isinstance(create(Options(pipeline=str(own)), ModelStore(tmp_path)), Pyannote)
    hub = create(Options(pipeline="pyannote/community"), ModelStore(tmp_path))
    assert isinstance(hub, Pyannote)


@pytest.mark.engine
@pytest.mark.torch
async def test_two_speakers_are_told_apart_whether_their_number_is_known_or_not():
    sample = resources.files("pyannote.audio") / "sample"
    with resources.as_file(sample / "sample.wav") as path:
        samples, rate = soundfile.read(path, dtype="int16")
    truth = turns_of_rttm((sample / "sample.rttm").read_text("utf-8").splitlines())
    diarizer = create(Options(), ModelStore())
    try:
        for speakers, most in ((2, 0.08), (None, 0.20)):
            [found] = await ask(diarizer, speakers, Pcm(samples, rate))
            assert diarization_error(truth, found.turns).rate <= most
            ends = [turn.end_ms for turn in found.exclusive]
            starts = [turn.start_ms for turn in found.exclusive]
            assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    finally:
        await diarizer.close()
