"""How turns are taken, if nobody says otherwise."""

from dataclasses import replace

import msgspec
import pytest

from pipelines.conversation.settings import SLOW_PARTIAL_MS, TurnSettings
from pipelines.strain import Strain


def test_the_defaults_are_those_of_the_documentation() -> None:
    settings = TurnSettings()
    assert (settings.profile, settings.interrupt_ms, settings.idle_ms) == (None, 200, None)
    assert settings.echo_guard
    assert settings.partials


@pytest.mark.parametrize(
    "value", [{"interrupt_ms": -1}, {"partial_ms": 0}, {"profile": "hasty"}, {"idle_ms": 0}]
)
def test_what_makes_no_sense_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, TurnSettings)


def test_each_step_of_the_strain_leaves_off_more_and_puts_nothing_on() -> None:
    settings = TurnSettings()
    assert settings.under(Strain.NONE) == settings
    slow = replace(settings, partial_ms=SLOW_PARTIAL_MS)
    assert settings.under(Strain.SLOW_PARTIALS) == slow
    silent = replace(slow, partials=False)
    assert settings.under(Strain.NO_PARTIALS) == silent
    for strain in (Strain.NO_SPECULATION, Strain.SHORT_REPLIES, Strain.NO_FILES, Strain.NO_CALLS):
        assert settings.under(strain) == replace(silent, speculate=False)
    rare = TurnSettings(partials=False, speculate=False, partial_ms=5_000)
    assert all(rare.under(strain) == rare for strain in Strain)
