"""The house: who is in, and how a call in it behaves."""

from typing import Any

import pytest

from engines.ports import Load
from pipelines.conversation.ports import Engines
from pipelines.conversation.settings import TurnSettings
from pipelines.strain import Strain
from voice.admission import Caller
from voice.config import load
from voice.house import House
from voice.reception import RefusedError


class Voice:
    def __init__(self, slots: int) -> None:
        self.slots = slots

    def load(self) -> Load:
        return Load(slots=self.slots)


def house(*settings: str, tts: Any = None) -> House:
    nothing: Any = None
    return House(load(settings=settings), Engines(nothing, nothing, nothing, tts))


@pytest.mark.parametrize(("slots", "most"), [(24, 24), (0, 100), (500, 100)])
def test_a_voice_that_serves_so_many_bounds_the_calls(slots: int, most: int) -> None:
    assert house("admission.max_calls=100", tts=Voice(slots)).room().most == most


def test_a_voice_that_is_started_again_still_bounds_the_calls() -> None:
    voice = Voice(24)
    busy = house(tts=voice)
    voice.slots = 0
    assert busy.room().most == 24


def test_engines_hold_as_many_calls_as_is_said_of_them() -> None:
    said = house("admission.asr=9", "admission.llm=7", "admission.tts=8", tts=Voice(4)).room()
    assert said.engines == {"asr": 9, "llm": 7, "tts": 8}
    assert (said.calls, said.most) == (256, 7)


def test_the_admission_knows_how_the_house_is() -> None:
    tired = house()
    tired.strain = Strain.NO_CALLS
    assert tired.reception.admission().room == tired.room()
    assert tired.room().strain is Strain.NO_CALLS
    tired.closing = True
    assert tired.room().closing


async def test_a_house_that_closes_takes_no_more_calls() -> None:
    closing = house()
    closing.close()
    with pytest.raises(RefusedError, match="shutting_down"):
        async with closing.reception.admit(Caller(), None, None):  # type: ignore[arg-type]
            pass
    assert closing.calls == 0


class Bearing:
    def bear(self, strain: Strain) -> None:
        self.strain = strain


def test_the_house_knows_its_open_calls_and_tells_them_how_it_is() -> None:
    home, call = house(), Bearing()
    home.strain = Strain.NO_FILES
    with pytest.raises(RuntimeError), home.knows(call):  # type: ignore[arg-type]
        assert home.open_calls == {call}
        raise RuntimeError("a bug")
    assert home.open_calls == set()
    assert call.strain is Strain.NO_FILES


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


def test_what_only_telephones_can_do_is_not_offered_elsewhere() -> None:
    settings = house("agent.tools=hang_up,send_digits").call_settings
    assert settings.own_tools == ("hang_up",)
