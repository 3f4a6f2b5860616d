"""G.711 against the standard library's own tables, and against the rules of the codes."""

import importlib
import warnings
from types import ModuleType

import numpy as np
import pytest

from voice.wire import g711

LAWS: list[g711.Law] = ["mulaw", "alaw"]
ALL_CODES = bytes(range(256))
ALL_SAMPLES = np.arange(-32_768, 32_768).astype(np.int16)


@pytest.fixture
def audioop() -> ModuleType:
    """Until Python 3.12."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return importlib.import_module("audioop")
        except ModuleNotFoundError:
            pytest.skip("this Python has no audioop")


@pytest.mark.parametrize(("law", "name"), [("mulaw", "ulaw2lin"), ("alaw", "alaw2lin")])
def test_every_code_means_what_it_means_elsewhere(
    audioop: ModuleType, law: g711.Law, name: str
) -> None:
    expected = np.frombuffer(getattr(audioop, name)(ALL_CODES, 2), np.int16)
    assert g711.decode(ALL_CODES, law).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("law", "encode", "decode"),
    [("mulaw", "lin2ulaw", "ulaw2lin"), ("alaw", "lin2alaw", "alaw2lin")],
)
def test_every_sample_is_coded_at_least_as_well_as_elsewhere(
    audioop: ModuleType, law: g711.Law, encode: str, decode: str
) -> None:
    coded = getattr(audioop, encode)(ALL_SAMPLES.tobytes(), 2)
    theirs = np.frombuffer(getattr(audioop, decode)(coded, 2), np.int16).astype(int)
    ours = g711.decode(g711.encode(ALL_SAMPLES, law), law).astype(int)
    assert (np.abs(ours - ALL_SAMPLES) <= np.abs(theirs - ALL_SAMPLES)).all()


@pytest.mark.parametrize("law", LAWS)
def test_a_coded_value_comes_back_as_it_was(law: g711.Law) -> None:
    values = g711.decode(ALL_CODES, law)
    assert g711.decode(g711.encode(values, law), law).tolist() == values.tolist()


@pytest.mark.parametrize("law", LAWS)
def test_each_sample_gets_the_nearest_value(law: g711.Law) -> None:
    values = g711.decode(ALL_CODES, law).astype(int)
    nearest = np.abs(values[None, :] - ALL_SAMPLES[::7, None].astype(int)).min(axis=1)
    coded = g711.decode(g711.encode(ALL_SAMPLES[::7], law), law).astype(int)
    assert np.abs(coded - ALL_SAMPLES[::7]).tolist() == nearest.tolist()


def test_silence_is_the_code_that_telephones_send() -> None:
    assert g711.encode(np.zeros(2, np.int16), "mulaw") == b"\xff\xff"
    assert g711.encode(np.full(2, 8, np.int16), "alaw") == b"\xd5\xd5"


@pytest.mark.parametrize("law", LAWS)
def test_speech_survives_with_the_noise_that_g711_has(law: g711.Law) -> None:
    speech = np.random.default_rng(2).laplace(0, 3_000, 8_000).clip(-32_000, 32_000)
    samples = speech.astype(np.int16)
    noise = g711.decode(g711.encode(samples, law), law).astype(float) - samples
    assert 10 * np.log10(np.mean(samples.astype(float) ** 2) / np.mean(noise**2)) > 35


@pytest.mark.parametrize("law", LAWS)
def test_nothing_is_nothing(law: g711.Law) -> None:
    assert g711.encode(np.zeros(0, np.int16), law) == b""
    assert g711.decode(b"", law).dtype == np.int16
