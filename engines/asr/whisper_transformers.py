"""Whisper through transformers, one token after the other: what the others are held against.

It follows the published model to the letter: windows padded to 30 s, the no-speech probability
taken right after <|startoftranscript|>, forbidden tokens left out, log probabilities of what is
left. It serves as an engine too, though the others are faster.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

from engines.asr.listening import Clip, Hearing, Listener, Threaded
from engines.asr.logmel import MOST_FRAMES, log_mel
from engines.asr.whisper_checkpoint import Checkpoint, read
from engines.asr.whisper_decoding import POSITIONS, Attempt, Decoded, Trial, most_tokens
from engines.checkpoints import load_whole
from engines.models import ModelStore
from engines.ports import Asr, EngineError, FloatArray

NAME = "whisper_transformers"


@dataclass(frozen=True)
class Options:
    """``model`` is a folder in transformers' format, or a name at the hub.

    ``language``: the code of the language spoken; empty: detected in each clip. ``device`` is
    one of torch's (``cpu``, ``cuda``), ``dtype`` float32, float16 or bfloat16. ``threads`` 0
    leaves torch's own number. ``retries``: how often a doubtful clip is decoded again.
    """

    model: str = "openai/whisper-base"
    language: str = ""
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 0
    retries: int = 2


def create(options: Options, models: ModelStore) -> Asr:
    """The recogniser; ``warm_up`` loads the model."""
    checkpoint = read(NAME, options.model, models)
    return Listener(NAME, Threaded(NAME, lambda: TorchWhisper(options, checkpoint).hear))


class TorchWhisper:
    """The loaded model. Raises EngineError (``unavailable``) where it cannot be loaded."""

    def __init__(self, options: Options, checkpoint: Checkpoint, model: Any = None) -> None:
        """``model``: one that is loaded already, in place of the checkpoint's weights."""
        self._options = options
        self._checkpoint = checkpoint
        self._vocabulary = checkpoint.vocabulary
        if options.threads:
            torch.set_num_threads(options.threads)
        self.model: Any = model or _load(options, checkpoint.where)
        self._end = self._vocabulary.id("<|endoftext|>")

    def hear(self, clip: Clip) -> Hearing:
        """Decode one clip of at most 30 s, again where the guard doubts the result."""
        options = self._options
        trial = Trial(clip, self._vocabulary, language=options.language, retries=options.retries)
        with _failures(), torch.inference_mode():
            encoded = self.encode(clip.samples)
            for attempt in trial:
                trial.add(self._decode(encoded, attempt, most_tokens(clip.duration_ms)))
        return trial.hearing

    def encode(self, samples: FloatArray) -> torch.Tensor:
        """The encoder's states (1, 1500, width) for ``samples`` (n,) at 16 kHz, at most 30 s."""
        mels: int = self.model.config.num_mel_bins
        features = torch.from_numpy(log_mel(samples, MOST_FRAMES, mels))[None]
        states: torch.Tensor = self.model.model.encoder(
            features.to(self.model.device, self.model.dtype)
        ).last_hidden_state
        return states

    def _decode(self, encoded: torch.Tensor, attempt: Attempt, most: int) -> Decoded:
        steps = Steps(self.model, encoded)
        history = self._vocabulary.history(attempt.before)
        start = steps([*history, self._vocabulary.id("<|startoftranscript|>")])
        language = attempt.language or self._likeliest_language(start)
        no_speech = float(start.softmax(-1)[self._vocabulary.no_speech])
        task = self._vocabulary.task(language)
        most = min(most, POSITIONS - len(history) - len(task))
        ids, logprobs = self._write(steps, task[1:], most, attempt.temperature)
        return Decoded(ids, sum(logprobs) / len(logprobs), no_speech, language)

    def _likeliest_language(self, logits: torch.Tensor) -> str:
        languages = self._vocabulary.languages
        best = int(logits[languages.start : languages.stop].argmax())
        return self._vocabulary.language(languages[best])

    def _write(
        self, steps: Steps, task: list[int], most: int, temperature: float
    ) -> tuple[list[int], list[float]]:
        """The text's tokens, and the log probabilities of these and of the end."""
        ids: list[int] = []
        logprobs: list[float] = []
        chance = torch.Generator().manual_seed(0)  # the same clip comes out the same
        logits = steps(task)
        logits[list(self._checkpoint.never_first)] = -torch.inf
        while len(ids) < most:
            logits[list(self._checkpoint.never)] = -torch.inf
            token = drawn(logits, temperature, chance)
            logprobs.append(float(logits.log_softmax(-1)[token]))
            if token == self._end:
                break
            ids.append(token)
            logits = steps([token])
        return ids, logprobs


class Steps:
    """The decoder over one clip, fed with tokens and telling what may come next."""

    def __init__(self, model: Any, encoded: torch.Tensor) -> None:
        self._model = model
        self._encoded = encoded
        self._cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        names = inspect.signature(model.model.decoder.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"  # before 5.24

    def __call__(self, ids: list[int]) -> torch.Tensor:
        """Logits (vocabulary,) float32 on the CPU, after these further tokens."""
        states = self._model.model.decoder(
            input_ids=torch.tensor([ids], device=self._model.device),
            encoder_hidden_states=self._encoded,
            use_cache=True,
            **{self._cache_name: self._cache},
        ).last_hidden_state
        logits: torch.Tensor = self._model.proj_out(states[0, -1])
        return logits.float().cpu()


def drawn(logits: torch.Tensor, temperature: float, chance: torch.Generator) -> int:
    """A token by its probability at that temperature, at 0 the likeliest."""
    if temperature == 0:
        return int(logits.argmax())
    return int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=chance))


def _load(options: Options, where: str) -> Any:
    try:
        model = load_whole("WhisperForConditionalGeneration", where, options.dtype)
        return model.to(options.device).eval()
    except Exception as error:  # torch, safetensors and the hub have each their own
        raise EngineError(
            NAME,
            "unavailable",
            f"cannot load {where} in {options.dtype} onto {options.device}: {error}",
        ) from error


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise EngineError(
            NAME,
            "unavailable",
            f"the device is out of memory ({error}): take a smaller model, or float16",
        ) from error
    except RuntimeError as error:  # what torch throws otherwise
        raise EngineError(NAME, "failed", f"decoding failed: {error}") from error
