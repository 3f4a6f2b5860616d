"""The peers' script is that of our own null engines."""

import numpy as np
import pytest

from engines import scripted
from engines.ports import SpeechRequest
from loadtest.peers import script


def test_the_same_words_are_heard_and_answered() -> None:
    assert scripted.AsrOptions().text == script.HEARD
    assert scripted.SCRIPT == script.TOKENS


@pytest.mark.parametrize("text", ["one", "one - two, three!", script.ANSWER, "…", ""])
def test_the_same_text_sounds_as_long_and_alike(text: str) -> None:
    theirs = b"".join(script.speech(text))
    ours = [pcm.samples for pcm in scripted.ScriptedTts().script(SpeechRequest(text))]
    expected = np.concatenate([np.zeros(0, np.int16), *ours])
    got = np.frombuffer(theirs, np.int16)
    assert len(got) == len(expected)
    assert np.abs(got.astype(int) - expected).max(initial=0) <= 1
