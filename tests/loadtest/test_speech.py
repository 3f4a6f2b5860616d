import json

import numpy as np
import soundfile

from loadtest.speech import from_first_sound, recordings, speech_level


def test_recordings_come_at_one_rate_in_one_channel(tmp_path):
    tone = np.sin(np.arange(44_100) * 0.05)
    soundfile.write(tmp_path / "two.flac", np.stack([tone, np.zeros_like(tone)], axis=1), 44_100)
    soundfile.write(tmp_path / "one.wav", tone[:8000], 16_000)
    said = {"two.flac": "a tone", "one.wav": "another"}
    (tmp_path / "transcripts.json").write_text(json.dumps(said))
    two, one = recordings(tmp_path)
    assert (two.name, two.words, len(two.pcm), two.pcm.rate) == (
        "two.flac",
        "a tone",
        16_000,
        16_000,
    )
    assert abs(two.pcm.floats()).max() < 0.52
    assert (one.name, len(one.pcm)) == ("one.wav", 8000)


def test_a_recording_begins_with_its_first_sound_and_its_level_is_that_of_the_speech():
    draw = np.random.default_rng(0)
    hiss, speech = 1e-3 * draw.standard_normal(8_000), 0.1 * draw.standard_normal(16_000)
    sound = from_first_sound(np.concatenate([hiss, speech, hiss]))
    assert abs(len(sound) - 24_000) <= 160
    assert abs(speech_level(np.concatenate([hiss, speech])) - 0.1) < 0.005
