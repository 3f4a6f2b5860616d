"""Tokens from TensorRT-LLM in this process: FP8 cache, in-flight batching, no eviction.

A request's grammar is followed where the logits are, in the engine's own process. What has not
been proven on a GPU yet: that the sampler of each release heeds a request's seed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from engines.checkpoints import located
from engines.ports import Load
from engines.tokens.ports import SlotGrammar, TokenRequest, Tokens
from engines.trtllm import Runtime, Written, decoder_arguments
from engines.tts.orpheus_tokens import seed_of

if TYPE_CHECKING:
    from engines.models import ModelStore

_NAME: Final = "trtllm"
_CONTEXT: Final = 4096
"""Tokens of a text with its speech: 12 s of Orpheus are about 1,000."""


class Options(Protocol):
    """What is asked of the options of whoever speaks."""

    @property
    def model(self) -> str: ...
    @property
    def slots(self) -> int: ...
    @property
    def kv_fraction(self) -> float: ...


def create_source(options: Options, models: ModelStore) -> TrtLlmTokens:
    """The contract of a token source: loads nothing yet."""
    return TrtLlmTokens(located(_NAME, options.model, models), options)


class TrtLlmTokens:
    """A TokenSource. ``model`` is a folder or the hub's name."""

    def __init__(self, model: str, options: Options) -> None:
        self._runtime = Runtime(
            _NAME,
            slots=options.slots,
            arguments=lambda api: {
                **decoder_arguments(
                    api,
                    model,
                    slots=options.slots,
                    kv_fraction=options.kv_fraction,
                    context=_CONTEXT,
                    bent_logits=True,
                ),
                "skip_tokenizer_init": True,
            },
        )

    async def warm_up(self) -> None:
        """Load, and write a token. Raises EngineError where that cannot be."""
        await self._runtime.start()
        async with self.open(TokenRequest((1,), max_tokens=1, stop=-1)) as answer:
            async for _ in answer:
                pass

    async def close(self) -> None:
        """Free the device."""
        await self._runtime.close()

    def load(self) -> Load:
        """Requests that are open, and those of them that wait for a slot."""
        return self._runtime.load()

    def open(self, request: TokenRequest) -> AbstractAsyncContextManager[AsyncIterator[Tokens]]:
        """Continue the prompt. Iterating raises EngineError, see ``Runtime.open``."""
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: TokenRequest) -> AsyncGenerator[AsyncIterator[Tokens], None]:
        prompt = list(request.prompt)
        sampling = self._runtime.sampling(
            end_id=request.stop,
            # The engine refuses more than its context, rather than stop there.
            max_tokens=max(1, min(request.max_tokens, _CONTEXT - len(prompt))),
            temperature=request.temperature,
            top_p=request.top_p,
            repetition_penalty=request.repetition_penalty,
            # What goes on from another's tokens must not draw its lots again.
            seed=seed_of(request.seed, len(prompt)),
            detokenize=False,
            logits_processor=request.grammar and OnlyAllowed(request.grammar, len(prompt)),
        )
        async with (
            self._runtime.open(prompt, sampling) as answer,
            aclosing(_before(request.stop, answer)) as tokens,
        ):
            yield tokens


async def _before(stop: int, answer: AsyncIterator[Written]) -> AsyncGenerator[Tokens, None]:
    """The answer's tokens without the one that ends it."""
    async for written in answer:
        if tokens := tuple(token for token in written.tokens if token != stop):
            yield tokens


@dataclass(frozen=True, slots=True)
class OnlyAllowed:
    """A logits processor that leaves what ``grammar`` allows after a prompt of so many tokens.

    It goes by the tokens alone, so it has no state to lose, and can be pickled. It needs the
    overlap scheduler to be off: under it the last token is missing from them.
    """

    grammar: SlotGrammar
    prompt: int

    def __call__(
        self,
        req_id: int,  # noqa: ARG002 - the signature is TensorRT-LLM's
        logits: Any,
        token_ids: list[list[int]],
        stream_ptr: int | None,  # noqa: ARG002
        client_id: int | None,  # noqa: ARG002
    ) -> None:
        """Change ``logits`` (beams, 1, vocabulary), a tensor, in place. ``token_ids``: of each
        beam the prompt's and then its own. See tensorrt_llm.sampling_params.LogitsProcessor."""
        for beam, ids in zip(logits, token_ids, strict=True):
            allowed, may_stop = self.grammar.allowed(len(ids) - self.prompt)
            stop = beam[..., self.grammar.stop].clone()
            beam[..., : allowed.start] = -float("inf")
            beam[..., allowed.stop :] = -float("inf")
            if may_stop:
                beam[..., self.grammar.stop] = stop
