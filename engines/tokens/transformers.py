"""Tokens from transformers in this process: the reference for the others, and what CPUs run.

Each request keeps its own keys and values and is computed by itself, a frame at a time, in one
thread that takes the requests in turn. So a request's tokens never depend on who else is there,
and all advance alike; it does not batch, and is no way to serve many on a GPU.

Each draw is a function of the seed and of the token's place in the whole sequence: a request that
goes on from another's tokens, with the same seed, goes on as the other would have.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engines.checkpoints import load_whole, located
from engines.extras import how_to_install
from engines.ports import EngineError, Priority
from engines.tokens.ports import SlotGrammar, TokenRequest, Tokens
from engines.workers import Workers

if TYPE_CHECKING:
    import torch

    from engines.models import ModelStore
    from engines.tts.orpheus import Options

_NAME: Final = "transformers"
_STRIDE: Final = 7
"""Tokens a turn: a frame, since nothing is heard of less."""


def create_source(options: Options, models: ModelStore) -> Transformers:
    """The contract of a token source: loads nothing yet."""
    return Transformers(located(_NAME, options.model, models), options.device)


class Transformers:
    """A TokenSource over ``AutoModelForCausalLM``: ``where`` is a folder or the hub's name."""

    def __init__(self, where: str, device: str) -> None:
        self._where = where
        self._device = device
        self._workers = Workers(_NAME)
        self._model: Any = None

    async def warm_up(self) -> None:
        """Load. Raises EngineError where it cannot be."""
        if self._model is None:
            self._model = await self._workers.run(Priority.FINAL, _load, self._where, self._device)

    async def close(self) -> None:
        """Free the model, once what it may still be doing is done."""
        self._workers.close()
        await self._workers.wait_closed()
        self._model = None

    def open(self, request: TokenRequest) -> AbstractAsyncContextManager[AsyncIterator[Tokens]]:
        """Continue the prompt. Iterating raises EngineError."""
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: TokenRequest) -> AsyncGenerator[AsyncIterator[Tokens], None]:
        tokens = self._tokens(request)
        try:
            yield tokens
        finally:
            await tokens.aclose()

    async def _tokens(self, request: TokenRequest) -> AsyncGenerator[Tokens, None]:
        if self._model is None:
            raise EngineError(_NAME, "unavailable", "it is not loaded: call warm_up first")
        continuation = Continuation(self._model, request)
        while not continuation.done:
            tokens = await self._workers.run(request.priority, continuation.advance, _STRIDE)
            if tokens:
                yield tokens


class Continuation:
    """One request being continued; used in the device's thread only."""

    def __init__(self, model: Any, request: TokenRequest) -> None:
        self.done = request.max_tokens < 1
        self._model = model
        self._request = request
        self._made = 0
        self._unread: tuple[int, ...] = request.prompt
        # The older name is that of the versions that TensorRT-LLM comes with.
        parameters = inspect.signature(model.base_model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._cache: Any = None
        self._seen: torch.Tensor | None = None

    def advance(self, count: int) -> Tokens:
        """The next tokens: ``count`` of them, where it does not end before."""
        import torch

        tokens: list[int] = []
        try:
            with torch.inference_mode():
                while len(tokens) < count and not self.done:
                    token = self._next()
                    self.done = token == self._request.stop
                    if not self.done:
                        tokens.append(token)
                        self._made += 1
                        self.done = self._made >= self._request.max_tokens
        except (RuntimeError, IndexError, ValueError) as error:
            raise EngineError(_NAME, "failed", f"the model failed: {error}") from error
        return tuple(tokens)

    def _next(self) -> int:
        request = self._request
        hidden = self._hidden()
        candidates = Candidates(request.grammar, self._made, self._model.config.vocab_size)
        logits = candidates.logits(self._model.get_output_embeddings(), hidden)
        assert self._seen is not None
        logits = penalised(logits, candidates.of(self._seen), request.repetition_penalty)
        lot = uniform(request.seed, len(request.prompt) + self._made)
        token = candidates.id(drawn(logits, request.temperature, request.top_p, lot))
        self._unread = (token,)
        return token

    def _hidden(self) -> torch.Tensor:
        """What the model makes of the last token, (width,), having read all before it."""
        import torch
        from transformers import DynamicCache

        unread = torch.tensor([self._unread], device=self._model.device)
        if self._seen is None:
            vocabulary = self._model.config.vocab_size
            self._seen = torch.zeros(vocabulary, dtype=torch.bool, device=unread.device)
            self._cache = DynamicCache()
        self._seen[unread[0]] = True
        model = self._model.base_model
        cache = {self._cache_name: self._cache}  # it grows in place
        hidden: torch.Tensor = model(input_ids=unread, use_cache=True, **cache)[0][0, -1]
        return hidden


# --- choosing -------------------------------------------------------------------------------


class Candidates:
    """The ids that may come next: all, or those that ``grammar`` allows after ``made`` tokens.

    A grammar allows a fortieth of Orpheus's vocabulary. The logits of the rest would become minus
    infinity, so they are not computed at all.
    """

    def __init__(self, grammar: SlotGrammar | None, made: int, vocabulary: int) -> None:
        allowed, may_stop = grammar.allowed(made) if grammar else (range(vocabulary), False)
        self._slices = [slice(allowed.start, allowed.stop)]
        if grammar and may_stop:
            self._slices.append(slice(grammar.stop, grammar.stop + 1))

    def of(self, rows: torch.Tensor) -> torch.Tensor:
        """Those of the ``rows`` of the vocabulary."""
        import torch

        return torch.cat([rows[ids] for ids in self._slices])

    def logits(self, head: torch.nn.Linear, hidden: torch.Tensor) -> torch.Tensor:
        """Their logits, float32, of ``hidden`` (width,)."""
        import torch

        parts = [
            torch.nn.functional.linear(
                hidden, head.weight[ids], None if head.bias is None else head.bias[ids]
            )
            for ids in self._slices
        ]
        return torch.cat(parts).float()

    def id(self, place: int) -> int:
        """The id of the logit at ``place``."""
        for ids in self._slices:
            length = int(ids.stop) - int(ids.start)
            if place < length:
                return int(ids.start) + place
            place -= length
        raise IndexError(f"there is no logit {place}")


def penalised(logits: torch.Tensor, seen: torch.Tensor, penalty: float) -> torch.Tensor:
    """Less likely what came before, the prompt too: CTRL, arXiv 1909.05858, section 4.1."""
    import torch

    less = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, less, logits)


def drawn(logits: torch.Tensor, temperature: float, top_p: float, lot: float) -> int:
    """The index that ``lot``, in [0, 1), hits among the likeliest whose chances reach ``top_p``;
    at temperature 0, the likeliest of all."""
    import torch

    if temperature <= 0:
        return int(logits.argmax())
    chances = torch.softmax(logits / temperature, -1).cpu().numpy()
    order = np.argsort(chances)[
        ::-1
    ]  # torch's takes five times as long, half of a tiny model's step
    reached = np.cumsum(chances[order], dtype=np.float64)
    reached = reached[: int(np.searchsorted(reached, top_p)) + 1]
    hit = int(np.searchsorted(reached, lot * reached[-1], side="right"))
    return int(order[min(hit, len(reached) - 1)])


def uniform(seed: int, place: int) -> float:
    """A lot in [0, 1) for one place of one seed's sequence."""
    digest = hashlib.blake2b(f"{seed}:{place}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / (1 << 53)


def _load(where: str, device: str) -> Any:
    try:
        import torch  # noqa: F401 - asked for here, to be told how to get it
        import transformers  # noqa: F401
    except ImportError as error:
        raise EngineError(_NAME, "unavailable", f"{error}: {how_to_install('orpheus')}") from error
    dtype = "float32" if device == "cpu" else "bfloat16"
    try:
        return load_whole("AutoModelForCausalLM", where, dtype).to(device).eval()
    except (AssertionError, RuntimeError, ValueError) as error:
        raise EngineError(
            _NAME, "unavailable", f"cannot load {where} ({error}): see to [tts] model and device"
        ) from error
