import numpy as np
import pytest

from engines.audio import Pcm
from engines.models import ModelStore
from engines.scripted import AsrOptions, ScriptedAsr
from loadtest.noises import at_level, noises
from loadtest.overheard import Overheard, overhear
from loadtest.speech import RATE, recordings
from pipelines.conversation.events import (
    AcceptTranscript,
    CommitTurn,
    OpenTurn,
    PauseReply,
    ShowWords,
    StopReply,
    Transcribe,
)


def test_what_the_machine_decides_is_counted():
    heard = Overheard()
    for command in (
        OpenTurn(1, 0),
        Transcribe(1, 1, "partial"),
        ShowWords(1, "Go"),
        PauseReply(1),
        StopReply(1, "turn_detected"),
        CommitTurn(1, 0, 0),
        AcceptTranscript(1, "", ""),
    ):
        heard.note(command)
    assert heard == Overheard(turns=1, readings=1, words=["Go"], paused=1, stopped=1)


HEARS_WORDS = ScriptedAsr(AsrOptions(text="I have a question"))
"""Whatever it is asked to hear."""


@pytest.fixture(scope="module")
def models() -> ModelStore:
    return ModelStore()


@pytest.mark.engine
class TestWithTheRealVad:
    @pytest.mark.parametrize("dbfs", [-50, -30, -10])
    async def test_a_minute_of_noise_hum_or_music_asks_nothing_of_a_recogniser(self, models, dbfs):
        for kind, sound in noises(60, recordings(models.path("speech"))).items():
            if kind != "babble":
                assert await overhear(at_level(sound, dbfs), HEARS_WORDS, models) == Overheard()

    async def test_a_minute_of_silence_is_nothing(self, models):
        assert await overhear(Pcm.silence(60_000, RATE), HEARS_WORDS, models) == Overheard()

    async def test_someone_who_speaks_is_heard_and_stops_the_agent(self, models):
        clip = recordings(models.path("speech"))[0].pcm.samples
        around = np.zeros(RATE, np.int16)
        heard = await overhear(
            Pcm(np.concatenate([around, clip, around]), RATE), HEARS_WORDS, models
        )
        assert (heard.turns, heard.paused, heard.stopped) == (1, 1, 1)
        assert heard.words[-1] == "I have a question"
