"""What TensorRT-LLM does not offer for Whisper: any prompt, and the no-speech probability.

The probability is that of one token right after <|startoftranscript|>, a place the engine passes
over when the whole task is in the prompt. So the prompt ends there, and a logits processor, which
travels to where the logits are, puts in the language, the task and the end of the timestamps.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import exp
from typing import Any, Final

from engines.asr.whisper_checkpoint import Checkpoint
from engines.ports import EngineError

MARGIN: Final = 20.0
"""How far the carrier lies below the forced token: it is drawn once in e^20 times at most, even
at a temperature of 1, and a logit of 16 bits still tells it to an eighth."""


@dataclass(frozen=True, slots=True)
class Forcing:
    """A logits processor that writes ``task`` behind ``start`` and then lets the model speak.

    It goes by the tokens alone, so it has no state to lose, and can be pickled; the overlap
    scheduler, under which the last token is missing from them, has to be off. ``task[0]`` None
    stands for the likeliest of ``languages``. No text holds one of ``never`` or begins with one
    of ``never_first``: the engine's own rules would keep out the task as well, and are off.

    In the first step it leaves two tokens: the one that it forces, and ``carrier``, whose log
    probability tells that of ``no_speech``.
    """

    start: int
    task: tuple[int | None, ...]
    languages: range
    no_speech: int
    carrier: int
    never: tuple[int, ...]
    never_first: tuple[int, ...]

    def __call__(
        self,
        req_id: int,  # noqa: ARG002 - the signature is TensorRT-LLM's
        logits: Any,
        token_ids: list[list[int]],
        stream_ptr: int | None,  # noqa: ARG002
        client_id: int | None,  # noqa: ARG002
    ) -> None:
        """Change ``logits`` (1, 1, vocabulary), a tensor, in place; see SamplingParams."""
        row = logits[0, 0]
        place = token_ids[0][::-1].index(self.start)
        if place == 0:
            self._force_first(row)
        elif place < len(self.task):
            _leave(row, self.task[place])
        else:
            first = self.never_first if place == len(self.task) else ()
            row.index_fill_(0, _index((*self.never, *first), row.device), -float("inf"))

    def _force_first(self, row: Any) -> None:
        told = row.float().log_softmax(-1)[self.no_speech].clone()
        first = self.task[0]
        if first is None:
            spoken = row[self.languages.start : self.languages.stop]
            first = self.languages.start + int(spoken.argmax())
        _leave(row, first)
        row[self.carrier] = told - MARGIN

    def no_speech_prob(self, token: int, logprobs: Mapping[int, float]) -> float:
        """Read from the first step's token and its log probabilities, of which two are enough."""
        carried = logprobs.get(self.carrier, -float("inf"))
        return min(1.0, exp(carried - logprobs[token] + MARGIN))


def forcing(checkpoint: Checkpoint, language: str | None) -> Forcing:
    """The processor for a language, or for finding it out. Raises EngineError (``bad_request``)
    for one that the model has no token for."""
    vocabulary = checkpoint.vocabulary
    start, first, *others = vocabulary.task(language or "en")
    return Forcing(
        start,
        (None if language is None else first, *others),
        vocabulary.languages,
        vocabulary.no_speech,
        vocabulary.id("<|notimestamps|>") + 1,  # the first timestamp
        checkpoint.never,
        checkpoint.never_first,
    )


def as_text(ids: Sequence[int]) -> str:
    """A prompt as ``take_any_prompt`` wants it."""
    return " ".join(map(str, ids))


def take_any_prompt(engine: str, llm: Any) -> None:
    """Let a ``tensorrt_llm.LLM`` take prompts of ``as_text``.

    Its own reading of a prompt refuses whatever does not begin with <|startoftranscript|>, and
    so what was said before. Raises EngineError (``unavailable``) where there is no such place.
    """
    processor: Any = getattr(llm, "input_processor", None)
    if not callable(getattr(processor, "_resolve_decoder_prompt", None)):
        version = getattr(import_module("tensorrt_llm"), "__version__", "unknown")
        raise EngineError(
            engine,
            "unavailable",
            f"this release of TensorRT-LLM ({version}) reads Whisper's prompt in another way "
            f"than 1.3.0rc26 does ({type(processor).__name__} has no _resolve_decoder_prompt), "
            "or the model is no Whisper: check the model, or run the release container of "
            "1.3.0rc26",
        )
    processor._resolve_decoder_prompt = _read


def _read(prompt: str | None) -> list[int]:
    return [int(token) for token in (prompt or "").split()]


@functools.cache
def _index(ids: tuple[int, ...], device: Any) -> Any:
    """A tensor of ids, made once a process: every step of every request needs it."""
    torch = import_module("torch")
    return torch.tensor(ids, dtype=torch.int64, device=device)


def _leave(row: Any, token: int | None) -> None:
    row.fill_(-float("inf"))
    row[token] = 0.0
