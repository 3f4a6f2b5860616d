"""What a test says: the model, its tokens, and what goes wrong. Nothing of this is published.

::

    pretend.script = lambda prompt_ids, sampling: [128_266, 132_362, ...]
    pretend.script = lambda ids, params: [Step(7, {7: -0.1, 50_362: -3.0}), gate, 8, Fails("...")]

A step is a token id; a ``Step`` with log-probabilities; a ``Hold``, where the answer waits until
the test sets it; ``Fails`` or ``GivesUp``, which end this request; or ``Dies``, which ends the
engine. Where a script ends without the end token, the engine adds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """A token, and the log-probabilities of the ids that the engine would rank first."""

    token: int
    logprobs: Mapping[int, float] = field(default_factory=dict)


class Hold(asyncio.Event):
    """The answer goes on when this is set. ``reached`` is set when it waits here."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()


@dataclass(frozen=True, slots=True)
class Fails:
    """This request fails with this message, and the engine lives."""

    message: str


@dataclass(frozen=True, slots=True)
class GivesUp:
    """The engine cancels this request by itself."""


@dataclass(frozen=True, slots=True)
class Dies:
    """The engine dies of this."""

    error: BaseException


OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of ..."

script: Callable[[list[int], Any], Sequence[int | Step | Hold | Fails | GivesUp | Dies]]
"""Prompt ids and SamplingParams to steps."""

load_error: BaseException | None
"""What building an LLM raises."""

tells_of_death: bool
"""Whether a dead engine raises EngineDeadError, or (as older releases) the bare cause once and
"LLM is shutting down" from then on."""

whisper: Any
"""The checkpoint, where the model is Whisper: set it to ``Whisper(...)``."""

tokenizer: Any
vocabulary: int
"""Columns of the logits that a logits processor gets."""

cached_tokens: int
built: list[dict[str, Any]]
"""The arguments of every LLM that was built."""

engines: list[Any]
"""The LLMs that were built."""


@dataclass(frozen=True, slots=True)
class Whisper:
    """The numbers of a Whisper checkpoint that the input processor looks at, and ``encode``:
    text with special tokens to ids."""

    encode: Callable[[str], list[int]]
    decoder_start_token_id: int = 50_258
    default_prompt: Sequence[int] = (50_258, 50_259, 50_360, 50_364)
    max_target_positions: int = 448
    max_source_positions: int = 1500
    n_samples: int = 480_000
    sampling_rate: int = 16_000


def reset() -> None:
    """As before any test."""
    global script, load_error, tells_of_death, whisper, tokenizer, vocabulary, cached_tokens
    script = lambda prompt_ids, sampling: []  # noqa: E731
    load_error = None
    tells_of_death = True
    whisper = None
    tokenizer = None
    vocabulary = 0
    cached_tokens = 0
    built.clear()
    engines.clear()


built, engines = [], []
reset()
