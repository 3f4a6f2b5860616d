"""How turns are taken, if nobody says otherwise."""

import msgspec
import pytest

from pipelines.conversation.settings import TurnSettings


def test_the_defaults_are_those_of_the_documentation() -> None:
    settings = TurnSettings()
    assert (settings.profile, settings.interrupt_ms, settings.idle_ms) == (None, 200, None)
    assert settings.echo_guard
    assert settings.partials


@pytest.mark.parametrize("value", [{"interrupt_ms": -1}, {"profile": "hasty"}, {"idle_ms": 0}])
def test_what_makes_no_sense_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, TurnSettings)
