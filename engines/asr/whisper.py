"""Whisper on CTranslate2, fed with what was said and no 30 seconds of padding.

Whisper was trained on 30 s windows and its encoder costs the same whatever they hold; but it
takes shorter ones. A few seconds of silence behind the speech are enough to keep it from
repeating the last phrase, at a fifth of the cost (2 s, or less than 8 s in all, are not).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

import ctranslate2
import numpy as np
from tokenizers import Tokenizer

from engines.asr.guard import Doubt, Heard, doubt, loudness_dbfs
from engines.asr.listening import RATE, Clip, Hearing, Listener
from engines.asr.logmel import log_mel
from engines.models import ModelStore
from engines.ports import Asr, EngineError

FRAMES_A_SECOND = 100
MOST_FRAMES = 3000  # the encoder has no position past 30 s
MOST_PROMPT_TOKENS = 223  # half of the decoder's 448, less <|startofprev|>
MOST_TEXT_TOKENS = 224
TOKENS_A_SECOND = 12  # fast speech has 8 in English; scripts split into bytes have more
SPARE_TOKENS = 12


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
    return Listener("whisper", lambda: Whisper(options, models).hear)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to decode a clip: so much silence behind it, the prompt or none, how warm."""

    pad_ms: int
    prompt: str
    temperature: float


class Whisper:
    """The loaded model. Raises EngineError (``unavailable``) where it cannot be loaded."""

    def __init__(self, options: Options, models: ModelStore) -> None:
        folder = models.path(options.model)
        self._options = options
        try:
            self._tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._tokens.encode_special_tokens = True  # a prompt's "<|en|>" is text, no command
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

    def hear(self, clip: Clip) -> Hearing:
        """Decode one clip of at most 30 s, again where the guard doubts the result."""
        try:
            return self._hear(clip)
        except RuntimeError as error:  # what CTranslate2 throws
            raise EngineError("whisper", "failed", f"decoding failed: {error}") from error

    def _hear(self, clip: Clip) -> Hearing:
        duration_ms = 1000 * len(clip.samples) / RATE
        loudness = loudness_dbfs(clip.samples, RATE)
        language = self._options.language or None
        if clip.language:
            language = clip.language.replace("_", "-").split("-")[0].lower()
        encoded, pad_ms = None, -1
        attempts: list[Heard] = []
        for attempt in self._attempts(clip.prompt):
            if attempt.pad_ms != pad_ms:
                encoded, pad_ms = self._encode(clip, attempt.pad_ms), attempt.pad_ms
            language = language or self._detect(encoded)
            prompt = self._prompt(attempt.prompt, language)
            text, logprob, no_speech = self._decode(
                encoded, prompt, duration_ms, attempt.temperature
            )
            attempts.append(Heard(text, duration_ms, loudness, logprob, no_speech))
            if is_settled(attempts):
                break
        return Hearing(best(attempts), language)

    def _attempts(self, prompt: str) -> Iterator[Attempt]:
        """The plain way; then more silence and no prompt, which misleads at times; then warmer."""
        pad_ms = self._options.pad_ms
        yield Attempt(pad_ms, prompt, 0.0)
        for retry in range(self._options.retries):
            yield Attempt(2 * pad_ms, "", 0.2 * retry)

    def _encode(self, clip: Clip, pad_ms: int) -> Any:
        milliseconds = 1000 * len(clip.samples) / RATE + pad_ms
        shortest = self._options.shortest_ms + pad_ms - self._options.pad_ms
        frames = ceil(max(milliseconds, shortest) * FRAMES_A_SECOND / 2000) * 2  # stride 2 inside
        features = log_mel(clip.samples, min(frames, MOST_FRAMES))
        return self._model.encode(ctranslate2.StorageView.from_array(features[np.newaxis]))

    def _detect(self, encoded: Any) -> str:
        if not self._model.is_multilingual:
            return "en"
        token: str = self._model.detect_language(encoded)[0][0][0]
        return token.strip("<|>")

    def _prompt(self, before: str, language: str) -> list[int]:
        """The tokens that set the task, behind those of what was said before."""
        task = ["<|startoftranscript|>"]
        if self._model.is_multilingual:
            task += [f"<|{language}|>", "<|transcribe|>"]
        ids = [self._id(token) for token in [*task, "<|notimestamps|>"]]
        if not before.strip():
            return ids
        history = self._tokens.encode(f" {before.strip()}", add_special_tokens=False).ids
        return [self._id("<|startofprev|>"), *history[-MOST_PROMPT_TOKENS:], *ids]

    def _id(self, token: str) -> int:
        found = self._tokens.token_to_id(token)
        if found is None:
            raise EngineError(
                "whisper",
                "bad_request",
                f"the model has no token {token}: as a language give a code such as en, de or ja",
            )
        return found

    def _decode(
        self, encoded: Any, prompt: list[int], duration_ms: float, temperature: float
    ) -> tuple[str, float, float]:
        """(text, average log probability, probability that nobody speaks)."""
        warm = temperature > 0
        result = self._model.generate(
            encoded,
            [prompt],
            beam_size=1 if warm else self._options.beam_size,
            max_length=length_limit(duration_ms, len(prompt)),
            return_scores=True,
            return_no_speech_prob=True,
            sampling_topk=0 if warm else 1,
            sampling_temperature=temperature if warm else 1.0,
        )[0]
        ids = result.sequences_ids[0]
        # the score is the mean over the text; Whisper's own average counts the end token too
        logprob = result.scores[0] * len(ids) / (len(ids) + 1)
        return self._tokens.decode(ids).strip(), logprob, result.no_speech_prob


def length_limit(duration_ms: float, prompt_tokens: int) -> int:
    """CTranslate2's ``max_length`` for as many tokens as can be said in the time.

    It grants the text the smaller of half of the limit and of the limit less the prompt.
    """
    most = ceil(duration_ms / 1000 * TOKENS_A_SECOND) + SPARE_TOKENS
    return min(max(2 * most, most + prompt_tokens), 2 * MOST_TEXT_TOKENS)


def is_settled(attempts: list[Heard]) -> bool:
    """Whether the last attempt needs no other: it is believed, silent, or the same again.

    What comes out alike under a longer padding was said so: people do say things twice.
    """
    last = attempts[-1]
    repeated = len(attempts) > 1 and last.words == attempts[-2].words
    return doubt(last) in (None, Doubt.SILENCE) or (repeated and doubt(last) is not Doubt.LOOP)


def best(attempts: list[Heard]) -> Heard:
    """The last where it is believed, else the likeliest of those that are no loop."""
    if is_settled(attempts):
        return attempts[-1]
    return max(attempts, key=lambda heard: (doubt(heard) is not Doubt.LOOP, heard.avg_logprob))
