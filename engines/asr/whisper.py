"""Whisper on CTranslate2, fed with what was said and no 30 seconds of padding.

Whisper was trained on 30 s windows and its encoder costs the same whatever they hold; but it
takes shorter ones. A few seconds of silence behind the speech are enough to keep it from
repeating the last phrase, at a fifth of the cost (2 s, or less than 8 s in all, are not).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ctranslate2
import numpy as np
from tokenizers import Tokenizer

from engines.asr.listening import Clip, Hearing, Listener, Threaded
from engines.asr.logmel import frames_of, log_mel
from engines.asr.whisper_decoding import (
    MOST_TEXT_TOKENS,
    Attempt,
    Decoded,
    Trial,
    Vocabulary,
    most_tokens,
)
from engines.models import ModelStore
from engines.ports import Asr, EngineError


@dataclass(frozen=True)
class Options:
    """``model`` is a name in the model store or the path of a folder in CTranslate2's format.

    ``language``: the code of the language spoken; empty: detected in each clip. ``compute_type``:
    int8 needs half the time of float32 on a CPU and hears as well. ``retries``: how often a
    doubtful clip is decoded again, first with more silence behind it, then warmer.
    """

    model: str = "whisper-base"
    language: str = ""
    device: str = "cpu"
    compute_type: str = "int8"
    threads: int = 2
    beam_size: int = 1
    pad_ms: int = 3000
    shortest_ms: int = 8000
    retries: int = 2


def create(options: Options, models: ModelStore) -> Asr:
    """The recogniser; ``warm_up`` loads the model."""
    models.path(options.model)  # tells of missing files before any engine has been loaded
    return Listener("whisper", Threaded("whisper", lambda: Whisper(options, models).hear))


class Whisper:
    """The loaded model. Raises EngineError (``unavailable``) where it cannot be loaded."""

    def __init__(self, options: Options, models: ModelStore) -> None:
        folder = models.path(options.model)
        self._options = options
        try:
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._model = ctranslate2.models.Whisper(
                str(folder),
                device=options.device,
                compute_type=options.compute_type,
                intra_threads=options.threads,
            )
        except Exception as error:  # tokenizers raises bare Exception
            raise EngineError(
                "whisper",
                "unavailable",
                f"cannot load the model in {folder}: {error}. It needs model.bin, config.json, "
                "tokenizer.json and vocabulary.txt as CTranslate2 writes them",
            ) from error
        self._vocabulary = Vocabulary(
            "whisper", tokenizer, multilingual=self._model.is_multilingual
        )

    def hear(self, clip: Clip) -> Hearing:
        """Decode one clip of at most 30 s, again where the guard doubts the result."""
        options = self._options
        trial = Trial(
            clip,
            self._vocabulary,
            language=options.language,
            pad_ms=options.pad_ms,
            retries=options.retries,
        )
        encoded, pad_ms = None, -1
        try:
            for attempt in trial:
                if attempt.pad_ms != pad_ms:
                    encoded, pad_ms = self._encode(clip, attempt.pad_ms), attempt.pad_ms
                trial.add(self._decode(encoded, attempt, clip.duration_ms))
        except RuntimeError as error:  # what CTranslate2 throws
            raise EngineError("whisper", "failed", f"decoding failed: {error}") from error
        return trial.hearing

    def _encode(self, clip: Clip, pad_ms: int) -> Any:
        shortest_ms = self._options.shortest_ms + pad_ms - self._options.pad_ms
        frames = frames_of(max(clip.duration_ms + pad_ms, shortest_ms))
        features = log_mel(clip.samples, frames, self._model.n_mels)
        return self._model.encode(ctranslate2.StorageView.from_array(features[np.newaxis]))

    def _detect(self, encoded: Any) -> str:
        token: str = self._model.detect_language(encoded)[0][0][0]
        return token.strip("<|>")

    def _decode(self, encoded: Any, attempt: Attempt, duration_ms: float) -> Decoded:
        language = attempt.language or self._detect(encoded)
        prompt = self._vocabulary.prompt(attempt.before, language)
        warm = attempt.temperature > 0
        result = self._model.generate(
            encoded,
            [prompt],
            beam_size=1 if warm else self._options.beam_size,
            max_length=length_limit(duration_ms, len(prompt)),
            return_scores=True,
            return_no_speech_prob=True,
            sampling_topk=0 if warm else 1,
            sampling_temperature=attempt.temperature if warm else 1.0,
        )[0]
        ids = result.sequences_ids[0]
        # the score is the mean over the text; Whisper's own average counts the end token too
        logprob = result.scores[0] * len(ids) / (len(ids) + 1)
        return Decoded(ids, logprob, result.no_speech_prob, language)


def length_limit(duration_ms: float, prompt_tokens: int) -> int:
    """CTranslate2's ``max_length`` for as many tokens as can be said in the time.

    It grants the text the smaller of half of the limit and of the limit less the prompt.
    """
    most = most_tokens(duration_ms)
    return min(max(2 * most, most + prompt_tokens), 2 * MOST_TEXT_TOKENS)
