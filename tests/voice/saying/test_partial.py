"""What is kept of an unfinished run."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from engines.audio import Pcm
from pipelines.narration.joining import Seam
from pipelines.speaking.loudness import Trend
from voice.saying.partial import Partial
from voice.saying.text import SayError

SAME = {"text": "a", "voice": "b"}
SEAM = Seam(Trend(3, -20.1, -19.7, 1 / 3, 0.2), 12_000.0, 300, 40.0, 24_000)
SOUND = np.arange(30_000, dtype=np.int16)


def begun(folder: Path, identity: dict[str, str] | None = None) -> Partial:
    """One piece is certain, of another there is a part."""
    partial = Partial(folder, identity or SAME, resume=False)
    partial.put(Pcm(SOUND, 24_000))
    partial.piece_ended(11, SEAM, (0,))
    partial.put(Pcm(SOUND[:100], 24_000))
    return partial


def heard(partial: Partial) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int16), *(pcm.samples for pcm in partial.sound())])


def test_it_goes_on_from_the_last_piece_that_is_certain(tmp_path: Path) -> None:
    begun(tmp_path / "p").leave()
    partial = Partial(tmp_path / "p", SAME, resume=True)
    state = partial.state
    assert (state.pieces, state.samples, state.done, state.starts) == (1, 30_000, 11, (0,))
    assert state.seam == SEAM
    assert np.array_equal(heard(partial), SOUND)
    partial.put(Pcm(SOUND[:7], 24_000))
    assert (partial.samples, len(heard(partial))) == (30_007, 30_007)
    partial.leave()


def test_what_was_killed_is_as_good(tmp_path: Path) -> None:
    begun(tmp_path / "p")._sound.close()  # no more was done
    partial = Partial(tmp_path / "p", SAME, resume=True)
    assert partial.samples == 30_000
    partial.leave()


def test_without_resume_it_is_begun_anew(tmp_path: Path) -> None:
    begun(tmp_path / "p").leave()
    partial = Partial(tmp_path / "p", SAME, resume=False)
    assert (partial.begun, partial.samples, len(heard(partial))) == (False, 0, 0)
    partial.leave()
    assert not (tmp_path / "p").exists()


def test_where_there_is_nothing_it_begins(tmp_path: Path) -> None:
    partial = Partial(tmp_path / "p", SAME, resume=True)
    assert not partial.begun
    partial.leave()


def test_an_output_that_ended_has_its_name_and_the_next_begins(tmp_path: Path) -> None:
    partial = begun(tmp_path / "p")
    partial.encoded.write_bytes(b"whole")
    partial.output_ended(tmp_path / "a.mp3")
    assert (tmp_path / "a.mp3").read_bytes() == b"whole"
    assert (partial.state.outputs, partial.state.pieces, partial.samples) == (1, 0, 0)
    assert partial.state.seam == Seam(SEAM.trend, SEAM.peak)
    partial.output_ended(None)
    partial.leave()
    assert (tmp_path / "p").exists()
    again = Partial(tmp_path / "p", SAME, resume=True)
    assert again.state.outputs == 2
    again.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp3"]


def test_another_text_or_voice_is_told(tmp_path: Path) -> None:
    begun(tmp_path / "p").leave()
    with pytest.raises(SayError, match="was begun with another text and another voice: "):
        Partial(tmp_path / "p", {"text": "x", "voice": "y"}, resume=True)
    Partial(tmp_path / "p", SAME, resume=True).leave()  # it is still there


@pytest.mark.parametrize("damage", ["state.json", "sound.s16"])
def test_what_is_damaged_is_told(tmp_path: Path, damage: str) -> None:
    begun(tmp_path / "p").leave()
    (tmp_path / "p" / damage).write_bytes(b"{")
    with pytest.raises(SayError, match=r"is damaged.*begun anew"):
        Partial(tmp_path / "p", SAME, resume=True)


def test_two_runs_do_not_write_the_same(tmp_path: Path) -> None:
    first = begun(tmp_path / "p")
    with pytest.raises(SayError, match="another voice say is at work"):
        Partial(tmp_path / "p", SAME, resume=False)
    first.leave()
    Partial(tmp_path / "p", SAME, resume=True).leave()


def test_nobody_has_what_is_about_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, removed = shutil.rmtree, []

    def rmtree(folder: Path, **how: bool) -> None:
        with pytest.raises(SayError, match="another voice say is at work"):
            Partial(folder, SAME, resume=False)
        gone(folder, **how)
        removed.append(folder)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    begun(tmp_path / "p").remove()
    Partial(tmp_path / "p", SAME, resume=False).leave()
    assert removed == [tmp_path / "p"] * 2


def test_a_disk_that_is_full_is_known_at_once() -> None:
    partial = Partial.__new__(Partial)
    with Path("/dev/full").open("wb") as full:
        partial._sound, partial._samples = full, 0
        with pytest.raises(OSError, match="No space left"):
            partial.put(Pcm(SOUND, 24_000))
