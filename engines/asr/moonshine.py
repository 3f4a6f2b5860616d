"""Moonshine tiny (arXiv 2410.15608): English in a few tens of milliseconds on a CPU.

Unlike Whisper it hears the waveform at its own length, so a short clip costs little. Its ONNX
graphs in int8 run here as they are published: an encoder, and a decoder whose two branches
(``use_cache_branch``) are the first token and every later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engines.asr.guard import Heard
from engines.asr.listening import RATE, Clip, Hearing, Listener, Threaded
from engines.models import ModelStore
from engines.onnx_sessions import ORT_ERRORS, open_session
from engines.ports import Asr, EngineError, FloatArray

BEGIN, END = 1, 2
TOKENS_A_SECOND = 6.5  # the cap of the published code: beyond it the decoder is in a loop
SPECIAL_TOKENS = 3  # unknown, begin, end
SPACE = "▁".encode()

Tensors: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Options:
    """``model`` is a name in the model store or the path of a folder.

    ``threads`` are the encoder's; the decoder's steps are too small to be shared and have one.
    ``pad_ms`` of silence are put behind each clip: a turn that is cut right after its last word
    loses that word's end more often (misheard words of turns fell by a fifth, 31 to 24 of 1074).
    """

    model: str = "moonshine-tiny-en"
    threads: int = 2
    pad_ms: int = 500


def create(options: Options, models: ModelStore) -> Asr:
    """The recogniser; ``warm_up`` loads the model. It hears English and takes no prompt."""
    models.path(options.model)  # tells of missing files before any engine has been loaded
    return Listener("moonshine", Threaded("moonshine", lambda: Moonshine(options, models).hear))


class Moonshine:
    """The loaded model. Raises EngineError (``unavailable``) where it cannot be loaded."""

    def __init__(self, options: Options, models: ModelStore) -> None:
        folder = models.path(options.model)
        self._pad = RATE * options.pad_ms // 1000
        try:
            self._pieces = read_pieces((folder / "tokenizer.bin").read_bytes())
            self._encoder = open_session(folder / "encoder_model.ort", options.threads)
            self._decoder = open_session(folder / "decoder_model_merged.ort", 1)
        except (OSError, ValueError, *ORT_ERRORS) as error:
            raise EngineError(
                "moonshine", "unavailable", f"cannot load the model in {folder}: {error}"
            ) from error
        self._presents = [output.name for output in self._decoder.get_outputs()][1:]
        self._empty: Tensors = {
            each.name: np.zeros((1, each.shape[1], 0, each.shape[3]), np.float32)
            for each in self._decoder.get_inputs()
            if each.name.startswith("past_key_values")
        }

    def hear(self, clip: Clip) -> Hearing:
        """Decode one clip, greedily. Raises EngineError (``bad_request``) but for English."""
        if clip.language and not clip.language.lower().startswith("en"):
            raise EngineError(
                "moonshine",
                "bad_request",
                f"the model hears English only, not {clip.language!r}: take the engine whisper",
            )
        most = ceil(len(clip.samples) / RATE * TOKENS_A_SECOND)
        try:
            ids, logprobs = self._decode(np.pad(clip.samples, (0, self._pad)), most)
        except ORT_ERRORS as error:
            raise EngineError("moonshine", "failed", f"decoding failed: {error}") from error
        text, logprob = text_of(ids, self._pieces), sum(logprobs) / len(logprobs)
        return Hearing(Heard(text, clip.sound, logprob), "en")

    def _decode(self, samples: FloatArray, most: int) -> tuple[list[int], list[float]]:
        """The tokens of the text and the log probabilities of these and of the end."""
        ids: list[int] = []
        logprobs: list[float] = []
        for token, logprob in self._steps(samples):
            logprobs.append(logprob)
            if token == END or len(ids) == most:
                break
            ids.append(token)
        return ids, logprobs

    def _steps(self, samples: FloatArray) -> Iterator[tuple[int, float]]:
        """Token after token with its log probability, without end."""
        sounding = np.ones((1, len(samples)), np.int64)
        states = self._encoder.run(
            None, {"input_values": samples[np.newaxis], "attention_mask": sounding}
        )[0]
        # the decoder thins this mask out to the encoder's rate by itself
        feed = {"encoder_hidden_states": states, "encoder_attention_mask": sounding, **self._empty}
        token = BEGIN
        for first in _once_true():
            feed["input_ids"] = np.array([[token]], np.int64)
            feed["use_cache_branch"] = np.array([not first])
            logits, *presents = self._decoder.run(None, feed)
            for name, present in zip(self._presents, presents, strict=True):
                if first or ".decoder." in name:  # the encoder's keys are made once
                    feed[name.replace("present", "past_key_values")] = present
            token, logprob = likeliest(logits[0, -1])
            yield token, logprob


def likeliest(logits: FloatArray) -> tuple[int, float]:
    """The best token of ``logits`` (n,) and its log probability."""
    token = int(logits.argmax())
    return token, -float(np.log(np.exp(logits - logits[token]).sum()))


def read_pieces(data: bytes) -> list[bytes]:
    """The vocabulary of tokenizer.bin: for each token its length, then its bytes.

    A length from 128 on has two bytes, low seven bits first with the top bit set.
    Raises ValueError where the file ends inside a token.
    """
    pieces: list[bytes] = []
    place = 0
    while place < len(data):
        length = data[place]
        place += 1
        if length >= 128:
            length += 128 * (data[place] - 1) if place < len(data) else 0
            place += 1
        if place + length > len(data):
            raise ValueError(f"tokenizer.bin is cut short inside its token {len(pieces)}")
        pieces.append(data[place : place + length])
        place += length
    return pieces


def text_of(ids: list[int], pieces: list[bytes]) -> str:
    """The words of the tokens. Letters beyond ASCII may be spread over tokens of one byte."""
    spoken = b"".join(pieces[token] for token in ids if token >= SPECIAL_TOKENS)
    return spoken.replace(SPACE, b" ").decode(errors="replace").strip()


def _once_true() -> Iterator[bool]:
    yield True
    while True:
        yield False
