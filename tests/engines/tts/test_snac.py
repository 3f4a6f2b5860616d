"""The streaming decoder says what ``SNAC.decode`` says: to the sample, in any company."""

import numpy as np
import pytest
import torch

from engines.ports import EngineError
from engines.tts.snac import EARLY_SAMPLES, SnacDecoder
from engines.tts.snac_layers import NO_END
from engines.tts.snac_noise import gaussian_noise
from engines.tts.snac_weights import TINY, random_snac
from loadtest.snac_bench import decode_offline, random_frames, stream, whole, without_noise

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_torch_thread")]

FRAME = SnacDecoder.frame_samples


@pytest.fixture(scope="module")
def tiny():
    return random_snac(1, **TINY)


@pytest.fixture(scope="module")
def full():
    return random_snac(1)


def speak_in_any_company(decoder, voices, rng):
    """Each voice's samples; which of them are in a step, and so how old they are, is chance."""
    slots = [decoder.open(seed) for seed in range(len(voices))]
    left = [[*voice, *[None] * decoder.tail_steps] for voice in voices]
    heard = [[] for _ in voices]
    while unfinished := [place for place, frames in enumerate(left) if frames]:
        chosen = rng.permutation(unfinished)[: rng.integers(1, len(unfinished) + 1)]
        chunks = decoder.step([slots[i] for i in chosen], [left[i].pop(0) for i in chosen])
        for place, chunk in zip(chosen, chunks, strict=True):
            heard[place].append(chunk)
    for slot in slots:
        decoder.close(slot)
    return [np.concatenate(chunks) for chunks in heard]


def speak(decoder, frames, seed):
    """All samples of one voice by itself."""
    slot = decoder.open(seed)
    steps = [*frames, *[None] * decoder.tail_steps]
    chunks = [decoder.step([slot], [frame])[0] for frame in steps]
    decoder.close(slot)
    return np.concatenate(chunks)


def assert_exact(heard, model, voices, limit):
    quiet = without_noise(model)
    for samples, frames in zip(heard, voices, strict=True):
        assert len(samples) == len(frames) * FRAME
        offline = decode_offline(quiet, frames[None])[0]
        assert offline.std() > 0.01
        assert np.abs(samples - offline).max() <= limit, len(frames)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.float64, 1e-8)])
def test_every_length_from_1_to_60_frames_is_exact_in_any_company(dtype, limit):
    # Offline, 1e-9 is added to what a snake divides by: that shows in double precision.
    model = random_snac(1, **TINY).to(dtype)
    voices = [random_frames(1, count, seed=count)[0] for count in range(1, 61)]
    decoder = SnacDecoder(model, slots=60, noise=False)
    heard = speak_in_any_company(decoder, voices, np.random.default_rng(0))
    assert {samples.dtype for samples in heard} == {np.dtype(str(dtype).removeprefix("torch."))}
    assert_exact(heard, model, voices, limit)


def test_the_real_shape_is_exact(full):
    voices = [random_frames(1, count, seed=count)[0] for count in (1, 2, 3, 4, 9)]
    decoder = SnacDecoder(full, slots=5, noise=False)
    heard = speak_in_any_company(decoder, voices, np.random.default_rng(0))
    assert_exact(heard, full, voices, 1e-5)


def test_audio_leaves_as_soon_as_it_is_exact(tiny):
    (chunks,) = stream(SnacDecoder(tiny, slots=1), random_frames(1, 5))
    assert [len(chunk) for chunk in chunks] == [0, 0, 1387, 2048, 2048, 2048, 2048, 661]


def test_a_voice_without_frames_is_silent(tiny):
    decoder = SnacDecoder(tiny, slots=1)
    slot = decoder.open(0)
    assert [len(decoder.step([slot], [None])[0]) for _ in range(4)] == [0, 0, 0, 0]


def test_a_step_of_nobody_is_nothing(tiny):
    assert SnacDecoder(tiny, slots=1).step([], []) == []


# --- noise ----------------------------------------------------------------------------------


def test_a_voice_sounds_the_same_alone_and_among_31_of_other_ages(tiny):
    lengths = np.random.default_rng(5).integers(1, 16, 32)
    voices = [random_frames(1, count, seed)[0] for seed, count in enumerate(lengths)]
    decoder = SnacDecoder(tiny, slots=32)
    together = speak_in_any_company(decoder, voices, np.random.default_rng(6))
    for seed, frames in enumerate(voices):
        alone = speak(decoder, frames, seed)
        assert np.abs(together[seed] - alone).max() <= 1e-6


def test_noise_is_where_the_offline_decoder_has_it(tiny):
    seed = (5 << 40) + 3
    frames = random_frames(1, 6)
    heard = speak(SnacDecoder(tiny, slots=1), frames[0], seed)
    offline = decode_offline(with_noise_of(tiny, seed), frames)[0]
    assert np.abs(heard - offline).max() <= 1e-5
    assert np.abs(heard - decode_offline(without_noise(tiny), frames)[0]).max() > 1e-2


def with_noise_of(model, seed):
    """The offline decoder, its draws replaced by the noise of one seed."""

    class Counted(torch.nn.Module):
        def __init__(self, linear, layer):
            super().__init__()
            self.linear, self.layer = linear, layer

        def forward(self, x):
            seeds = torch.tensor([[seed & 0xFFFFFFFF, seed >> 32]])
            at = torch.arange(x.shape[2])[None]
            layers = torch.full((x.shape[2],), self.layer)
            return x + self.linear(x) * gaussian_noise(seeds, layers, at, x.dtype)

    noisy, quiet = model.decoder.model, without_noise(model)
    for layer, place in enumerate(range(2, 6)):
        gain = noisy[place].block[2].linear
        quiet.decoder.model[place].block[2] = Counted(gain, layer)
    return quiet


def test_the_seed_tells_voices_apart(tiny):
    frames = np.repeat(random_frames(1, 4), 2, axis=0)
    first, second = whole(stream(SnacDecoder(tiny, slots=2), frames))  # seeds 0 and 1
    assert np.abs(first - second).max() > 1e-2


def test_a_slot_is_as_new_for_its_next_voice(tiny):
    decoder = SnacDecoder(tiny, slots=1)
    frames = random_frames(1, 3)
    slot = decoder.open(0)
    for frame in random_frames(1, 5, seed=9)[0]:
        decoder.step([slot], [frame])
    decoder.close(slot)
    again = whole(stream(decoder, frames))
    np.testing.assert_array_equal(again, whole(stream(SnacDecoder(tiny, slots=1), frames)))


# --- the early opening ----------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_an_early_opening_is_bounded_and_what_follows_it_exact(full, count):
    frames = random_frames(2, count, seed=count)
    exact = decode_offline(without_noise(full), frames)
    chunks = stream(SnacDecoder(full, slots=2, noise=False, early=True), frames)
    sizes = [len(chunk) for chunk in chunks[0]]
    heard = whole(chunks)
    assert heard.shape == exact.shape
    if count == 1:
        assert np.abs(heard - exact).max() <= 1e-5
        return
    assert sizes[:4] == [0, EARLY_SAMPLES, 0, 3435 - EARLY_SAMPLES]
    error = heard - exact
    opening = slice(0, EARLY_SAMPLES)
    assert np.abs(error[:, EARLY_SAMPLES:]).max(initial=0) <= 1e-5
    assert np.square(error[:, opening]).mean() < 1e-3 * np.square(exact[:, opening]).mean()


def test_early_openings_leave_everyone_else_alone(tiny):
    voices = [random_frames(1, count, seed=count)[0] for count in (2, 3, 5, 8, 13)]
    rng = np.random.default_rng
    exact = speak_in_any_company(SnacDecoder(tiny, slots=5), voices, rng(0))
    early = speak_in_any_company(SnacDecoder(tiny, slots=5, early=True), voices, rng(1))
    for one, other in zip(exact, early, strict=True):
        assert np.abs(one - other)[EARLY_SAMPLES:].max(initial=0) <= 1e-5


# --- what it refuses ------------------------------------------------------------------------

ZEROS = [0] * 7


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([0] * 6, "7 whole numbers"),
        ([0.0] * 7, "7 whole numbers"),
        ([[0] * 7], "7 whole numbers"),
        (["a"] * 7, "7 whole numbers"),
        ([0] * 6 + [4096], "from 0 to 4095"),
        ([0] * 6 + [-1], "from 0 to 4095"),
    ],
)
def test_codes_that_are_none_are_refused_and_change_nothing(tiny, frame, message):
    decoder = SnacDecoder(tiny, slots=2)
    slots = [decoder.open(0), decoder.open(1)]
    with pytest.raises(ValueError, match=message):
        decoder.step(slots, [ZEROS, frame])
    chunks = [decoder.step(slots, [ZEROS, ZEROS])[0] for _ in range(3)]
    assert [len(chunk) for chunk in chunks] == [0, 0, 1387]


def test_the_ends_of_the_codebook_are_legal(tiny):
    decoder = SnacDecoder(tiny, slots=1)
    assert decoder.check([0, 4095] * 3 + [0]).tolist() == [0, 4095] * 3 + [0]


def test_slots_that_cannot_be_stepped_are_refused(tiny):
    decoder = SnacDecoder(tiny, slots=2)
    slot = decoder.open(0)
    with pytest.raises(ValueError, match="may come once"):
        decoder.step([slot, slot], [ZEROS, ZEROS])
    with pytest.raises(ValueError, match="as many frames"):
        decoder.step([slot], [])
    with pytest.raises(ValueError, match=r"slots \[7\] are not open"):
        decoder.step([slot, 7], [ZEROS, ZEROS])
    decoder.step([slot], [None])
    with pytest.raises(ValueError, match="has ended"):
        decoder.step([slot], [ZEROS])
    decoder.close(slot)
    with pytest.raises(ValueError, match="not open"):
        decoder.step([slot], [None])
    with pytest.raises(ValueError, match="closed before"):
        decoder.close(slot)


def test_no_more_voices_than_slots(tiny):
    decoder = SnacDecoder(tiny, slots=1)
    slot = decoder.open(0)
    assert decoder.open_slots == 1
    with pytest.raises(EngineError, match="all 1 slots are taken") as refused:
        decoder.open(0)
    assert refused.value.code == "unavailable"
    decoder.close(slot)
    assert decoder.open(0) == slot
    with pytest.raises(ValueError, match="at least one slot"):
        SnacDecoder(tiny, slots=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vq_strides": [8, 4, 2, 1]}, "three codebooks"),
        ({"attn_window_size": 32}, "without attention"),
        ({"depthwise": False}, "no depthwise"),
        ({"decoder_rates": [8, 8, 2, 4]}, "only the one for 24 kHz"),
    ],
)
def test_a_snac_of_another_build_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        SnacDecoder(random_snac(**{**TINY, "decoder_dim": 64, **changes}), slots=1)


def test_no_voice_is_as_long_as_what_stands_for_no_end():
    assert NO_END * FRAME < 2**63
