"""A VAD that needs no model, as an engine: ``vad.engine = "tests.fakes.loudness"``."""

from dataclasses import dataclass

from tests.conftest import LoudnessVad


@dataclass(frozen=True)
class Options:
    """None."""


def create(options: Options, models: object) -> LoudnessVad:
    return LoudnessVad()
