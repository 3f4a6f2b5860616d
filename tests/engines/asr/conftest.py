import importlib.util
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.models import ModelStore
from engines.ports import Asr, AsrRequest, Transcript
from loadtest.speech import Recording, recordings
from loadtest.tiny_whisper import tiny_tokenizer, write

Listen = Callable[..., Awaitable[Transcript]]


@pytest.fixture(scope="session")
def models() -> ModelStore:
    return ModelStore()


@pytest.fixture(scope="session")
def spoken(models) -> list[Recording]:
    """Real speech: the folder that the environment names, else the store's."""
    folder = os.environ.get("ANTIPHON_SPEECH_DIR")
    return recordings(Path(folder) if folder else models.path("speech"))


@pytest.fixture
def listen() -> Listen:
    """The one transcript of some sound."""

    async def hear(asr: Asr, pcm: Pcm, **request: object) -> Transcript:
        async with asr.open(AsrRequest(pcm, **request)) as transcripts:
            (transcript,) = [transcript async for transcript in transcripts]
        return transcript

    return hear


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A Whisper of random weights in transformers' format; needs torch."""
    return write(tmp_path_factory.mktemp("tiny") / "whisper")


@pytest.fixture(scope="session")
def babble() -> Pcm:
    """Two seconds that sound a little like speech: tones that come and go over noise."""
    rng = np.random.default_rng(11)
    time = np.arange(32_000) / 16_000
    tones = sum(np.sin(2 * np.pi * hertz * time) for hertz in (180, 640, 1750))
    sound = 0.1 * tones * (np.sin(2 * np.pi * 3 * time) > 0) + 0.01 * rng.standard_normal(32_000)
    return Pcm.from_floats(sound, 16_000)


@pytest.fixture(scope="session")
def real_whisper(models) -> Any:
    """The reference with the weights of the store's Whisper, which are in CTranslate2's format."""
    from tokenizers import Tokenizer

    from engines.asr.whisper_checkpoint import Checkpoint
    from engines.asr.whisper_decoding import Vocabulary
    from engines.asr.whisper_transformers import Options, TorchWhisper

    path = Path(__file__).with_name("ct2_weights.py")
    spec = importlib.util.spec_from_file_location("ct2_weights", path)
    ct2_weights = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ct2_weights)
    folder = models.path("whisper-base")
    rules = json.loads((folder / "config.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocabulary = Vocabulary("whisper", tokenizer, multilingual=True)
    never, never_first = tuple(rules["suppress_ids"]), tuple(rules["suppress_ids_begin"])
    checkpoint = Checkpoint("", vocabulary, never, never_first)
    return TorchWhisper(Options(), checkpoint, ct2_weights.load(folder))


@pytest.fixture
def engine(trtllm) -> ModuleType:
    """Where a test says what a pretended TensorRT-LLM does with the tiny Whisper."""
    tokens = tiny_tokenizer()
    trtllm.vocabulary = tokens.get_vocab_size()
    trtllm.whisper = trtllm.Whisper(
        encode=lambda text: tokens.encode(text, add_special_tokens=False).ids,
        decoder_start_token_id=tokens.token_to_id("<|startoftranscript|>"),
    )
    return trtllm
