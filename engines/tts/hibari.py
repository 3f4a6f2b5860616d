"""hibari: one English voice at 24 kHz, a hundred times faster than speech on one thread.

Its weights come inside its package. A sentence is synthesised as a whole, which for eight words
takes 20 ms, so there is nothing to gain from smaller pieces. The model decides how long each
phoneme lasts before it makes any sound, so where words end is known, at no cost.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engines.audio import Mark, Pcm
from engines.models import verify_file
from engines.ports import EngineError, Load, Priority, SpeechRequest
from engines.tts.silence import pause_after, sounding, trim
from engines.workers import Workers

if TYPE_CHECKING:
    from engines.models import ModelStore

_log = logging.getLogger(__name__)

_NAME: Final = "hibari"
_RATE: Final = 24_000
_SLOWEST, _FASTEST = 0.5, 2.0
_WEIGHTS: Final = {  # of hibari-tts 0.2.1
    "hibari.onnx": "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
    "oov.onnx": "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76",
}
_ENDS: Final = "/CumSum_output_0"
"""The value in hibari.onnx that says for each phoneme how much of the sound is over at its end."""

_FEWEST_IDS: Final = 3
"""One phoneme between two pads."""

_WORD: Final = re.compile(r"\S*[^\W_]")
"""A word of a text or of phonemes, without the punctuation behind it, which is a pause."""

_REHEARSAL: Final = "Hello. On the 3rd of May, 12 people paid $9.99 for a zorblatt, didn't they?"
"""Has something for each part that hibari loads when it first needs it."""


@dataclass(frozen=True, slots=True)
class Options:
    """``threads``: of one synthesis; a second brings nothing for a phrase. ``workers``: phrases
    synthesised at the same time."""

    threads: int = 1
    workers: int = 1


def create(options: Options, models: ModelStore) -> Hibari:  # noqa: ARG001 - the plug-in contract
    """The plug-in contract: loads nothing yet."""
    return Hibari(options)


class Hibari:
    """A Tts. It has one voice, which speaks whatever voice is asked for."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._workers = Workers(_NAME, options.workers)
        self._model: Any = None
        self._told = False

    async def warm_up(self) -> None:
        """Load and speak once. Raises EngineError where a file is not the one it should be."""
        self._model = await self._workers.run(Priority.FINAL, _load, self._options.threads)
        async with self.open(SpeechRequest(_REHEARSAL)) as chunks:
            async for _ in chunks:
                pass

    async def close(self) -> None:
        """Free the model, once what it may still be doing is done: a process must not end while
        a thread is in native code."""
        self._workers.close()
        await self._workers.wait_closed()
        self._model = None

    def load(self) -> Load:
        """Phrases that are spoken now, and those that wait for a thread."""
        return self._workers.load()

    def open(self, request: SpeechRequest) -> AbstractAsyncContextManager[AsyncIterator[Pcm]]:
        """Speak: one Pcm for each sentence, none for what cannot be spoken.

        The speed is held within 0.5 and 2.0. Iterating raises EngineError.
        """
        if request.voice not in (None, _NAME) and not self._told:
            self._told = True
            _log.info("hibari has one voice, which speaks for %r and any other", request.voice)
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: SpeechRequest) -> AsyncGenerator[AsyncIterator[Pcm], None]:
        speech = self._workers.stream(request.priority, lambda: self._speak(request))
        async with aclosing(speech):
            yield speech

    def _speak(self, request: SpeechRequest) -> Iterator[Pcm]:
        """In a worker: the sentences of ``request``, one after the other."""
        model = self._model
        if model is None:
            raise EngineError(_NAME, "unavailable", "it is not loaded: call warm_up first")
        speed = min(max(request.speed, _SLOWEST), _FASTEST)
        try:
            sentences = model.phonemize(request.text)
            words = _words_of(request.text, sentences)
            for number, phonemes in enumerate(sentences):
                pcm = _sound(model, phonemes, speed, words[number])
                if len(pcm):
                    yield pcm
        except (RuntimeError, ValueError, LookupError) as error:
            raise EngineError(
                _NAME, "failed", f"cannot speak {request.text[:80]!r}: {error}"
            ) from error


def _words_of(text: str, sentences: list[str]) -> list[list[tuple[int, int]]]:
    """For each sentence of phonemes, where its words end: in the phonemes, and in ``text``.

    None are known where the phonemes have other words than the text, which has a number in
    figures, say.
    """
    written = [word.end() for word in _WORD.finditer(text)]
    spoken = [[word.end() for word in _WORD.finditer(sentence)] for sentence in sentences]
    if sum(map(len, spoken)) != len(written):
        return [[] for _ in sentences]
    offsets = iter(written)
    return [[(end, next(offsets)) for end in ends] for ends in spoken]


def _sound(model: Any, phonemes: str, speed: float, words: list[tuple[int, int]]) -> Pcm:
    """The sound of a sentence with the ends of its words; empty where nothing of it sounds."""
    ids = model.ids(phonemes)
    if not any(map(str.isalpha, phonemes)) or len(ids) < _FEWEST_IDS:
        return Pcm(np.zeros(0, np.int16), _RATE)
    from hibari.dsp import synth

    given = {"ids": np.asarray([ids], np.int64), "speed": np.asarray([speed], np.float32)}
    *spectra, ends = model.sess.run(None, given)
    samples = synth(*(part[0] for part in spectra), _noise_of(phonemes))
    spoken, start = trim(samples, _RATE, pause_after(phonemes) / speed)
    each = len(samples) // int(ends[-1])
    sounds = sounding(spoken, _RATE)
    marks = []
    for place, offset in words:
        end = int(ends[sum(phoneme in model.vocab for phoneme in phonemes[:place])]) * each - start
        # The last phoneme before a pause is long: its word ends with what can be heard of it.
        heard = int(sounds[: np.searchsorted(sounds, end, "right")].max(initial=0))
        marks.append(Mark(offset, 1000 * heard / _RATE))
    return replace(Pcm.from_floats(spoken, _RATE), marks=tuple(marks))


def _noise_of(phonemes: str) -> np.random.Generator:
    """The breath of a voice, drawn so that the same sentence always sounds the same."""
    return np.random.default_rng(zlib.crc32(phonemes.encode()))


def _load(threads: int) -> Any:
    import hibari

    from engines.onnx_sessions import open_session

    assets = Path(hibari.__file__).parent / "assets"
    for name, sha256 in _WEIGHTS.items():
        verify_file(assets / name, sha256)
    model = hibari.Hibari()
    # Its own session would let idle threads spin, on cores that the other engines want.
    model.sess = open_session(_with_output((assets / "hibari.onnx").read_bytes(), _ENDS), threads)
    return model


def _with_output(model: bytes, name: str) -> bytes:
    """An ONNX file with one more of its values as the last output.

    Protocol buffers that are joined are merged, so it takes no more than a model (field 7 the
    graph, field 12 of that an output, field 1 of that its name) behind the first.
    """
    patch = name.encode()
    for field in (1, 12, 7):
        patch = bytes((field << 3 | 2, len(patch))) + patch
    return model + patch
