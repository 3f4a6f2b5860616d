import numpy as np
import pytest

from engines.audio import Pcm
from loadtest.clips import read_clips
from loadtest.murmurs import BACKCHANNELS, RATE, without_lead, write_murmurs
from tests.loadtest.calling import PlainWire


def test_what_precedes_the_first_sound_is_cut():
    time = np.arange(RATE) / RATE
    sound = np.concatenate([np.zeros(RATE // 2), 0.3 * np.sin(2 * np.pi * 220 * time)])
    cut = without_lead(Pcm.from_floats(sound.astype(np.float32), RATE))
    assert len(cut) / RATE == pytest.approx(1.0, abs=0.03)


@pytest.mark.engine
async def test_a_folder_of_hums_is_one_of_recordings(tmp_path):
    await write_murmurs(tmp_path)
    clips = read_clips(tmp_path, PlainWire())
    assert [clip.words for clip in clips] == list(BACKCHANNELS)
    assert all(10 < len(clip.frames) < 100 for clip in clips)
    assert all(clip.first_sound_s < 0.1 for clip in clips)
