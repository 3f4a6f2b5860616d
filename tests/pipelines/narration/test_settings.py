"""What a piece may hold follows from how long it may last."""

import pytest

from pipelines.narration.settings import NarrationSettings
from voice.config import ConfigError, load


def test_words_and_characters_of_a_piece_follow_its_length() -> None:
    usual, short = NarrationSettings(), NarrationSettings(piece_s=4)
    assert (usual.most_words, usual.most_characters) == (33, 288)
    assert (short.most_words, short.most_characters) == (11, 96)


@pytest.mark.parametrize("setting", ["narration.piece_s=0.5", "narration.sentence_ms=-1"])
def test_what_cannot_be_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=setting.partition("=")[0]):
        load(settings=[setting])
