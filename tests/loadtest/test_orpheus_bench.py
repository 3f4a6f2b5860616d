"""The benchmark's own judgement: what counts as a frame that is not the one it should be."""

import numpy as np

from loadtest.orpheus_bench import FRAME_SAMPLES, damage


def test_damage_tells_lost_doubled_and_changed_frames_apart() -> None:
    said = np.arange(4 * FRAME_SAMPLES, dtype=np.int16)
    assert damage(said, said) == (0, 0)
    assert damage(said[: 3 * FRAME_SAMPLES], said) == (1, 0)
    doubled = np.concatenate([said, said[:FRAME_SAMPLES]])
    assert damage(doubled, said) == (-1, 0)
    changed = said.copy()
    changed[FRAME_SAMPLES + 5] += 2
    changed[FRAME_SAMPLES + 9] += 3
    assert damage(changed, said) == (0, 1)
    changed = said.copy()
    changed[3] += 1
    assert damage(changed, said) == (0, 0)
