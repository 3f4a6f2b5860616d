"""The streaming decoder against SNAC's own decode of the whole: exact, whoever is in the batch."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from engines.ports import EngineError
from engines.tts.snac import EARLY_FRAMES, EARLY_SAMPLES, SnacDecoder
from engines.tts.snac_weights import TINY, random_snac
from loadtest.snac_bench import without_noise

pytestmark = pytest.mark.torch

FRAME = SnacDecoder.frame_samples
DELAY = SnacDecoder.delay_samples
TOLERANCE = 1e-5


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tiny():
    return random_snac(**TINY)


def frames_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4096, (count, 7))


def offline(model, frames: np.ndarray) -> np.ndarray:
    """SNAC's own decode of all frames at once, without noise."""
    codes = torch.as_tensor(frames)
    levels = [
        codes[:, [0]].reshape(1, -1),
        codes[:, [1, 4]].reshape(1, -1),
        codes[:, [2, 3, 5, 6]].reshape(1, -1),
    ]
    with torch.inference_mode():
        return without_noise(model).decode(levels).flatten().numpy()


def speak(decoder: SnacDecoder, frames: np.ndarray, seed: int = 0) -> np.ndarray:
    """All samples of one voice by itself."""
    slot = decoder.open(seed)
    steps: list[Sequence[int] | None] = [*frames, *[None] * decoder.tail_steps]
    pieces = [decoder.step([slot], [step])[0] for step in steps]
    decoder.close(slot)
    return np.concatenate(pieces)


@pytest.mark.parametrize("count", range(1, 61))
def test_every_length_is_exact_head_and_tail_included(tiny, count: int) -> None:
    frames = frames_of(count, seed=count)
    heard = speak(SnacDecoder(tiny, slots=1, noise=False), frames)
    assert len(heard) == count * FRAME
    assert np.abs(heard - offline(tiny, frames)).max() <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3, 9])
def test_the_real_shape_is_exact(count: int) -> None:
    model, frames = random_snac(), frames_of(count)
    heard = speak(SnacDecoder(model, slots=1, noise=False), frames)
    assert np.abs(heard - offline(model, frames)).max() <= TOLERANCE


def test_in_double_precision_it_is_a_thousand_times_closer() -> None:
    model, frames = random_snac(**TINY).double(), frames_of(12)
    heard = speak(SnacDecoder(model, slots=1, noise=False), frames)
    assert np.abs(heard - offline(model, frames)).max() <= 1e-8


@pytest.mark.parametrize("noise", [False, True])
def test_a_voice_sounds_the_same_alone_and_among_31_of_other_ages(tiny, noise: bool) -> None:
    lots = np.random.default_rng(5)
    voices = {seed: frames_of(int(lots.integers(1, 16)), seed) for seed in range(32)}
    decoder = SnacDecoder(tiny, slots=32, noise=noise)
    heard = {seed: [] for seed in voices}
    slots, left = {}, {seed: [*voices[seed], *[None] * decoder.tail_steps] for seed in voices}
    begins = {seed: int(lots.integers(0, 10)) for seed in voices}
    step = 0
    while any(left.values()):
        now = [s for s in voices if left[s] and step >= begins[s] and lots.random() < 0.8]
        for seed in now:
            if seed not in slots:
                slots[seed] = decoder.open(seed)
        pieces = decoder.step([slots[s] for s in now], [left[s].pop(0) for s in now])
        for seed, piece in zip(now, pieces, strict=True):
            heard[seed].append(piece)
        step += 1
    for seed, frames in voices.items():
        alone = speak(SnacDecoder(tiny, slots=1, noise=noise), frames, seed)
        assert np.abs(np.concatenate(heard[seed]) - alone).max() <= 1e-6


def test_noise_is_that_of_the_seed(tiny) -> None:
    frames, decoder = frames_of(4), SnacDecoder(tiny, slots=1)
    first, again, other = (speak(decoder, frames, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first, offline(tiny, frames))


def test_samples_leave_as_soon_as_they_are_exact(tiny) -> None:
    decoder = SnacDecoder(tiny, slots=1, noise=False)
    slot = decoder.open(0)
    lengths = [len(decoder.step([slot], [frame])[0]) for frame in frames_of(5)]
    assert lengths == [0, 0, 3 * FRAME - DELAY, FRAME, FRAME]
    tail = [len(decoder.step([slot], [None])[0]) for _ in range(decoder.tail_steps)]
    assert sum(tail) == DELAY


def test_an_early_opening_costs_little_and_all_else_is_exact(tiny) -> None:
    frames = frames_of(12)
    decoder = SnacDecoder(tiny, slots=2, noise=False, early=True)
    slot = decoder.open(0)
    lengths = [len(decoder.step([slot], [frame])[0]) for frame in frames[:4]]
    assert lengths == [0, EARLY_SAMPLES, 0, 4 * FRAME - DELAY - EARLY_SAMPLES]
    decoder.close(slot)
    heard, exact = speak(decoder, frames), offline(tiny, frames)
    assert len(heard) == len(exact)
    assert np.abs(heard - exact)[EARLY_SAMPLES:].max() <= TOLERANCE
    error = heard[:EARLY_SAMPLES] - exact[:EARLY_SAMPLES]
    decibels = 10 * np.log10(np.square(error).mean() / np.square(exact[:EARLY_SAMPLES]).mean())
    assert decibels < -30


@pytest.mark.parametrize("count", range(1, EARLY_FRAMES + 3))
def test_an_early_voice_that_ends_soon_is_whole(tiny, count: int) -> None:
    heard = speak(SnacDecoder(tiny, slots=1, noise=False, early=True), frames_of(count))
    assert len(heard) == count * FRAME


def test_a_slot_begins_afresh(tiny) -> None:
    decoder = SnacDecoder(tiny, slots=1, noise=False)
    slot = decoder.open(0)
    decoder.step([slot], [frames_of(1)[0]])
    decoder.close(slot)
    frames = frames_of(5, seed=9)
    assert np.abs(speak(decoder, frames) - offline(tiny, frames)).max() <= TOLERANCE


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ([0] * 6, "7 whole numbers"),
        ([0.5] * 7, "7 whole numbers"),
        ([0, 0, 0, 0, 0, 0, 4096], "from 0 to 4095"),
        ([-1, 0, 0, 0, 0, 0, 0], "from 0 to 4095"),
    ],
)
def test_what_is_no_frame_is_refused_and_changes_nothing(tiny, frame, words: str) -> None:
    decoder, frames = SnacDecoder(tiny, slots=1, noise=False), frames_of(4)
    slot = decoder.open(0)
    with pytest.raises(ValueError, match=words):
        decoder.step([slot], [frame])
    decoder.close(slot)
    assert np.abs(speak(decoder, frames) - offline(tiny, frames)).max() <= TOLERANCE


def test_slots_are_few_and_each_is_one_voice(tiny) -> None:
    decoder, [frame] = SnacDecoder(tiny, slots=1, noise=False), frames_of(1)
    slot = decoder.open(0)
    with pytest.raises(EngineError, match="all 1 slots are taken"):
        decoder.open(0)
    with pytest.raises(ValueError, match="once in a step"):
        decoder.step([slot, slot], [frame, frame])
    with pytest.raises(ValueError, match="as many frames"):
        decoder.step([slot], [])
    decoder.step([slot], [None])
    with pytest.raises(ValueError, match="has ended"):
        decoder.step([slot], [frame])
    decoder.close(slot)
    with pytest.raises(ValueError, match="not open"):
        decoder.step([slot], [frame])
    with pytest.raises(ValueError, match="not open"):
        decoder.close(slot)
    with pytest.raises(ValueError, match="at least one slot"):
        SnacDecoder(tiny, slots=0)
    assert decoder.step([], []) == []


def test_a_snac_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="24 kHz"):
        SnacDecoder(random_snac(**TINY, decoder_rates=[8, 8, 2, 2]), slots=1)
    with pytest.raises(ValueError, match="three codebooks"):
        SnacDecoder(random_snac(**TINY, vq_strides=[2, 1]), slots=1)
