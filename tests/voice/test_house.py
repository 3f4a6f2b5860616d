"""The house: who is in, and how a call in it behaves."""

from typing import Any

import pytest

from engines.ports import Load
from pipelines.conversation.ports import Engines
from pipelines.conversation.settings import TurnSettings
from voice.config import load
from voice.house import House


class Voice:
    def __init__(self, slots: int) -> None:
        self.slots = slots

    def load(self) -> Load:
        return Load(slots=self.slots)


def house(*settings: str, tts: Any = None) -> House:
    nothing: Any = None
    return House(load(settings=settings), Engines(nothing, nothing, nothing, tts))


@pytest.mark.parametrize(("slots", "capacity"), [(24, 24), (0, 100), (500, 100)])
def test_a_voice_that_serves_so_many_bounds_the_calls(slots: int, capacity: int) -> None:
    assert house("server.max_calls=100", tts=Voice(slots)).capacity == capacity


def test_the_house_is_full_when_all_places_are_taken() -> None:
    full = house("server.max_calls=2")
    with full.admit():
        assert not full.is_full
        with full.admit():
            assert (full.is_full, full.calls) == (True, 2)
        assert not full.is_full
    assert full.calls == 0


def test_a_place_is_given_back_whatever_happens() -> None:
    broken = house()
    with pytest.raises(RuntimeError), broken.admit():
        raise RuntimeError("a bug")
    assert broken.calls == 0
    assert broken.metrics.registry.get_sample_value("antiphon_calls") == 0
    opened = broken.metrics.registry.get_sample_value(
        "antiphon_calls_opened_total", {"outcome": "admitted"}
    )
    assert opened == 1


def test_a_call_behaves_as_the_agent_is_set_up() -> None:
    settings = house(
        "agent.instructions=Be brief.",
        "agent.voice=mia",
        "agent.language=en",
        "agent.max_tokens=50",
        "agent.temperature=0.3",
        "turns.speculate=false",
    ).call_settings
    assert settings.turns == TurnSettings(speculate=False)
    assert (settings.instructions, settings.voice, settings.language) == ("Be brief.", "mia", "en")
    assert (settings.max_tokens, settings.temperature) == (50, 0.3)


def test_the_model_is_named_after_its_engines() -> None:
    assert house("asr.engine=a", "llm.engine=b", "tts.engine=c").model == "antiphon/a+b+c"
