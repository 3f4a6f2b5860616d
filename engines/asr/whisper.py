"""Whisper on CTranslate2, fed with what was said and no 30 seconds of padding.

Whisper was trained on 30 s windows and its encoder costs the same whatever they hold; but it
takes shorter ones. A few seconds of silence behind the speech are enough to keep it from
repeating the last phrase, at a fifth of the cost (2 s, or less than 8 s in all, are not).
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import ctranslate2
import numpy as np
from tokenizers import Tokenizer

from engines.asr.listening import Clip, Hearing, Listener, Threaded
from engines.asr.logmel import frames_of, log_mel
from engines.asr.together import Kind, Together
from engines.asr.whisper_decoding import (
    MOST_TEXT_TOKENS,
    Decoded,
    Trial,
    Vocabulary,
    most_tokens,
)
from engines.asr.word_times import words_of
from engines.models import ModelStore
from engines.ports import Asr, EngineError, FloatArray

NAME: Final = "whisper"


@dataclass(frozen=True)
class Options:
    """``model`` is a name in the model store or the path of a folder in CTranslate2's format.

    ``language``: the code of the language spoken; empty: detected in each clip. ``compute_type``:
    int8 needs half the time of float32 on a CPU and hears as well. ``retries``: how often a
    doubtful clip is decoded again, first with more silence behind it, then warmer. ``batch``: how
    many clips of files each of the ``threads`` decodes together, by a second copy of the model; 0:
    there is none, and the clips of files are heard one by one between those of calls.
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
    batch: int = 4


def create(options: Options, models: ModelStore) -> Asr:
    """The recogniser; ``warm_up`` loads the model."""
    models.path(options.model)  # tells of missing files before any engine has been loaded
    calls = Threaded(NAME, lambda: Whisper(options, models).hear)
    if not options.batch:
        return Listener(NAME, calls)
    of_files = replace(options, threads=1)
    threads = options.threads
    files = Together(NAME, lambda: Whisper(of_files, models, threads), threads, options.batch)
    return Listener(NAME, calls, files)


class Attempting:
    """The attempts at one clip, see ``engines.asr.together.Attempts``."""

    def __init__(self, clip: Clip, trial: Trial) -> None:
        self.clip = clip
        self.trial = trial
        self.hearing: Hearing | None = None
        self._attempts = iter(trial)
        self.attempt = next(self._attempts)
        self.encoded: tuple[int, Any] = 0, None
        """Frames and states of the last attempt, if it was made alone."""

    @property
    def kind(self) -> Kind:
        return self.attempt.temperature, self.attempt.before

    def add(self, decoded: Decoded) -> bool:
        """What came of the attempt. False where another follows."""
        self.trial.add(decoded)
        attempt = next(self._attempts, None)
        self.attempt = attempt or self.attempt
        return attempt is None


class Whisper:
    """The loaded model (``engines.asr.together.Ensemble``). ``at_once`` batches are computed on
    ``options.threads`` each. Raises EngineError (``unavailable``) where it cannot be loaded."""

    def __init__(self, options: Options, models: ModelStore, at_once: int = 1) -> None:
        folder = models.path(options.model)
        self._options = options
        try:
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._model = ctranslate2.models.Whisper(
                str(folder),
                device=options.device,
                compute_type=options.compute_type,
                inter_threads=at_once,
                intra_threads=options.threads,
            )
        except Exception as error:  # tokenizers raises bare Exception
            raise EngineError(
                NAME,
                "unavailable",
                f"cannot load the model in {folder}: {error}. It needs model.bin, config.json, "
                "tokenizer.json and vocabulary.txt as CTranslate2 writes them",
            ) from error
        _give_back()
        self._vocabulary = Vocabulary(NAME, tokenizer, multilingual=self._model.is_multilingual)

    def hear(self, clip: Clip) -> Hearing:
        """Decode one clip of at most 30 s, again where the guard doubts the result."""
        alone = self.begin(clip)
        while alone.hearing is None:
            self.go_on([alone])
        return alone.hearing

    def begin(self, clip: Clip) -> Attempting:
        """See ``Ensemble``."""
        options = self._options
        trial = Trial(
            clip,
            self._vocabulary,
            language=options.language,
            pad_ms=options.pad_ms,
            retries=options.retries,
        )
        begun = Attempting(clip, trial)
        if begun.attempt.language:
            self._vocabulary.task(begun.attempt.language)  # refuses what is no language
        return begun

    def go_on(self, clips: Sequence[Attempting]) -> None:
        """See ``Ensemble``."""
        try:
            encoded = self._encode(clips)
            decoded = self._decode(encoded, clips)
            over = [each for each, what in zip(clips, decoded, strict=True) if each.add(what)]
            for each in over:
                each.hearing = each.trial.hearing
            if any(each.clip.word_times for each in over):
                self._time_words(encoded, clips)
        except RuntimeError as error:  # what CTranslate2 throws
            raise EngineError(NAME, "failed", f"decoding failed: {error}") from error

    def _encode(self, clips: Sequence[Attempting]) -> Any:
        """States of all, filled up to the longest with silence."""
        frames = max(self._frames(each) for each in clips)
        if len(clips) == 1 and clips[0].encoded[0] == frames:
            return clips[0].encoded[1]
        mels = self._model.n_mels
        features = np.stack([log_mel(each.clip.samples, frames, mels) for each in clips])
        if len(clips) == 1:
            clips[0].encoded = frames, self._states(features)
            return clips[0].encoded[1]
        if self._options.device != "cpu":
            return self._states(features)
        # one by one: the states of several do not stay in a core's cache, which costs a half more
        states = [np.asarray(self._states(each)) for each in features[:, np.newaxis]]
        return ctranslate2.StorageView.from_array(np.concatenate(states))

    def _states(self, features: FloatArray) -> Any:
        return self._model.encode(ctranslate2.StorageView.from_array(features))

    def _frames(self, each: Attempting) -> int:
        options, pad_ms = self._options, each.attempt.pad_ms
        shortest_ms = options.shortest_ms + pad_ms - options.pad_ms
        return frames_of(max(each.clip.duration_ms + pad_ms, shortest_ms))

    def _languages(self, encoded: Any, clips: Sequence[Attempting]) -> list[str]:
        """Those that are asked for, or else detected."""
        asked = [each.attempt.language for each in clips]
        if None not in asked:
            return [language for language in asked if language]
        likeliest = [row[0][0].strip("<|>") for row in self._model.detect_language(encoded)]
        return [language or found for language, found in zip(asked, likeliest, strict=True)]

    def _decode(self, encoded: Any, clips: Sequence[Attempting]) -> list[Decoded]:
        languages = self._languages(encoded, clips)
        temperature, before = clips[0].kind
        history = self._vocabulary.history(before)
        prompts = [[*history, *self._vocabulary.task(language)] for language in languages]
        longest_ms = max(each.clip.duration_ms for each in clips)
        results = self._model.generate(
            encoded,
            prompts,
            beam_size=1 if temperature > 0 else self._options.beam_size,
            max_length=length_limit(longest_ms, len(prompts[0])),
            return_scores=True,
            return_no_speech_prob=True,
            sampling_topk=0 if temperature > 0 else 1,
            sampling_temperature=temperature or 1.0,
        )
        return [_decoded(*each) for each in zip(results, languages, strict=True)]

    def _time_words(self, encoded: Any, clips: Sequence[Attempting]) -> None:
        """Of all that are settled and are to have them: by what the decoder looked at as it wrote
        each token. One call has one language."""
        ids = [each.trial.ids for each in clips]
        frames = [frames_of(each.clip.duration_ms) for each in clips]
        for language in {each.hearing.language for each in clips if each.hearing}:
            task = self._vocabulary.task(str(language))[:-1]  # it puts <|notimestamps|> there
            aligned = self._model.align(encoded, task, ids, frames)
            for each, tokens, alignment in zip(clips, ids, aligned, strict=True):
                if each.hearing and each.clip.word_times and each.hearing.language == language:
                    texts = self._vocabulary.characters(tokens)
                    words = words_of(texts, alignment.alignments, alignment.text_token_probs)
                    each.hearing = replace(each.hearing, words=words)


def _give_back() -> None:
    """What loading has freed, to the system: the weights in half precision, more than those that
    are kept as int8. The GNU C library would keep it, and nothing here ever asks for as much."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def _decoded(result: Any, language: str) -> Decoded:
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
