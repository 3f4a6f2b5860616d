"""TensorRT-LLM's PyTorch backend as a source of tokens: what Whisper, Orpheus and chat share.

Use::

    runtime = Runtime("orpheus", slots=24, arguments=lambda api: decoder_arguments(api, ...))
    await runtime.start()                                # minutes: loads, in a thread
    sampling = runtime.sampling(max_tokens=100, end_id=2, detokenize=False)  # one a request!
    async with runtime.open([1, 2, 3], sampling) as answer:   # or {"prompt": ..., ...}
        async for written in answer:
            written.tokens, written.logprobs, written.finish
    await runtime.close()

Leaving the context aborts what is left. An engine that died stays dead: every later request
fails at once with ``unavailable``, and who supervises the process starts another.

The package is not a dependency: it needs CUDA, and its wheel comes from NVIDIA's own index. It
is imported when a runtime starts. Names and behaviour were read in its sources and reference of
1.3.0rc26 and later; tests/fakes/tensorrt_llm says where.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from engines.ports import EngineError, Load, Priority
from engines.workers import Workers

if TYPE_CHECKING:
    pass

OLDEST: Final = "1.3.0rc26"
"""The first release whose PyTorch backend has what is asked of it here: Whisper, abort of a
streamed request, and a sampler that heeds the repetition penalty."""

_HOW_TO_GET_IT: Final = (
    "run in NVIDIA's release container (nvcr.io/nvidia/tensorrt-llm/release), from which the GPU "
    "image is built, or install the extra `gpu` on Python 3.12 with CUDA"
)
_STEP_TOKENS: Final = 16_384
"""Of all prompts together that one step reads: a long one is read in several."""

Inputs: TypeAlias = "list[int] | Mapping[str, Any]"
"""Prompt ids, or ``prompt`` with ``multi_modal_data``."""


@dataclass(frozen=True, slots=True)
class Written:
    """The next tokens of an answer. The end token is among them where it was written.

    ``logprobs``: of each token its alternatives, id to natural logarithm, the drawn one first;
    empty where none were asked for. ``finish``: with the last ones ``stop`` or ``length``, else
    empty. ``cached_tokens``: of the prompt's, those found in the cache.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[Mapping[int, float], ...] = ()
    finish: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0


def decoder_arguments(
    api: Any,
    model: str,
    *,
    slots: int,
    kv_fraction: float,
    kv_dtype: str = "fp8",
    context: int = 8192,
    bent_logits: bool = False,
) -> dict[str, Any]:
    """Arguments of ``LLM`` for a model of one stack (a Llama): many short answers at once, each
    at its own pace. ``context``: tokens of a prompt with its answer.

    ``bent_logits``: requests will come with a logits processor. The overlap scheduler would run
    it before the previous token is known, so that it is always one token behind; it is then
    switched off, which costs some of the time that the host takes between two steps.
    """
    return {
        "model": model,
        "max_batch_size": slots,
        "max_num_tokens": _STEP_TOKENS,
        "max_seq_len": context,
        "enable_chunked_prefill": True,
        "disable_overlap_scheduler": bent_logits,
        "stream_interval": 1,
        "kv_cache_config": api.KvCacheConfig(
            dtype=kv_dtype, enable_block_reuse=True, free_gpu_memory_fraction=kv_fraction
        ),
        # An evicting scheduler may pause an answer that somebody is listening to.
        "scheduler_config": api.SchedulerConfig(
            capacity_scheduler_policy=api.CapacitySchedulerPolicy.GUARANTEED_NO_EVICT
        ),
        "cuda_graph_config": api.CudaGraphConfig(max_batch_size=slots, enable_padding=True),
    }


class Runtime:
    """One engine. ``slots`` is its max_batch_size: what is open beyond it waits inside it.

    ``name`` is on its errors. ``arguments`` gives the arguments of ``LLM`` from the module
    tensorrt_llm.llmapi, whose classes they need. ``stall_s``: how long the whole engine may give
    nothing while somebody waits.
    """

    def __init__(
        self,
        name: str,
        *,
        slots: int,
        arguments: Callable[[Any], dict[str, Any]],
        stall_s: float = 30.0,
    ) -> None:
        self._name = name
        self._slots = slots
        self._arguments = arguments
        self._stall_s = stall_s
        self._open = 0
        self._mute: dict[int, float] = {}
        """Requests that nothing has come of yet, and since when."""
        self._api: Any = None
        self._llm: Any = None
        self._death = ""
        self._progress_at = 0.0

    @property
    def llm(self) -> Any:
        """tensorrt_llm.LLM. Raises EngineError where it is not loaded, or dead."""
        if self._death:
            raise self._dead()
        if self._llm is None:
            raise self._unavailable("it is not loaded: call warm_up first")
        return self._llm

    async def start(self) -> None:
        """Import and load. Raises EngineError where that is missing, too old, or does not fit."""
        workers = Workers(f"{self._name} loader")
        try:
            self._api, self._llm = await workers.run(Priority.FINAL, self._build)
        finally:
            workers.close()

    async def close(self) -> None:
        """Free the device. Requests that are open end."""
        llm, self._llm = self._llm, None
        if llm is not None:
            # What a dead engine says at its end helps nobody.
            with contextlib.suppress(Exception):
                await asyncio.to_thread(llm.shutdown)

    def sampling(self, **values: Any) -> Any:
        """A new SamplingParams: one for each request, since the engine writes into it."""
        if self._api is None:
            raise self._unavailable("it is not loaded: call warm_up first")
        try:
            return self._api.SamplingParams(**values)
        except ValueError as error:
            raise self._refused(error) from error

    def load(self) -> Load:
        """Requests that are open, and those of them that wait for a slot."""
        busy = min(self._open, self._slots)
        queued, oldest_ms = self._open - busy, 0.0
        if queued and self._mute:  # nobody but the engine knows who has a slot
            oldest_ms = (asyncio.get_running_loop().time() - min(self._mute.values())) * 1000.0
        return Load(slots=self._slots, busy=busy, queued=queued, oldest_ms=oldest_ms)

    def open(
        self, inputs: Inputs, sampling: Any
    ) -> AbstractAsyncContextManager[AsyncIterator[Written]]:
        """Start one request. Iterating raises EngineError: ``bad_request`` (the prompt is too
        long), ``unavailable`` (out of memory, dead), ``timeout`` (stalled), ``failed``."""
        return self._opened(inputs, sampling)

    @asynccontextmanager
    async def _opened(
        self, inputs: Inputs, sampling: Any
    ) -> AsyncGenerator[AsyncIterator[Written], None]:
        result = self._submit(self.llm, inputs, sampling)
        self._open += 1
        self._mute[id(result)] = asyncio.get_running_loop().time()
        try:
            async with aclosing(self._read(result)) as answer:
                yield answer
        finally:
            self._open -= 1
            self._mute.pop(id(result), None)
            if not (result.finished or self._death):
                # It may have died this moment: then nothing is left to abort.
                with contextlib.suppress(Exception):
                    result.abort()

    def _submit(self, llm: Any, inputs: Inputs, sampling: Any) -> Any:
        try:
            return llm.generate_async(inputs, sampling_params=sampling, streaming=True)
        except (ValueError, self._api.RequestError) as error:
            raise self._refused(error) from error
        except RuntimeError as error:
            raise self._died_of(error) from error

    async def _read(self, result: Any) -> AsyncGenerator[Written, None]:
        steps = aiter(result)
        finish = ""
        while not finish:
            await self._step(steps)
            self._mute.pop(id(result), None)
            output = result.outputs[0]
            finish = output.finish_reason or ""
            if finish not in ("", "stop", "length"):
                raise EngineError(
                    self._name, "failed", f"the engine gave the request up ({finish}): try again"
                )
            yield Written(
                tuple(output.token_ids_diff),
                tuple(map(_plain, output.logprobs_diff)),
                finish,
                len(result.prompt_token_ids),
                getattr(result, "cached_tokens", 0) or 0,
            )

    async def _step(self, steps: AsyncIterator[Any]) -> None:
        """Wait for the answer's next tokens, while the engine gives any to anybody."""
        loop = asyncio.get_running_loop()
        # Nobody may have read for long, and what nobody reads is no progress: no stall either.
        began = loop.time()
        while True:
            until = max(self._progress_at, began) + self._stall_s
            try:
                async with asyncio.timeout_at(until) as limit:
                    await anext(steps)
            except self._api.RequestError as error:
                raise self._refused(error) from error
            except Exception as error:
                if not limit.expired():
                    raise self._died_of(error) from error
                if self._progress_at + self._stall_s <= until:
                    raise self._stalled() from error
            else:
                self._progress_at = loop.time()
                return

    def _build(self) -> tuple[Any, Any]:
        """In a thread: import the package and load the model."""
        api = self._import()
        try:
            return api, api.LLM(**self._arguments(api))
        except Exception as error:
            raise self._not_loaded(error) from error

    def _import(self) -> Any:
        try:
            package = importlib.import_module("tensorrt_llm")
            api = importlib.import_module("tensorrt_llm.llmapi")
        except (ImportError, OSError, RuntimeError) as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == "tensorrt_llm"
            what = "is not installed" if missing else f"cannot be imported ({error})"
            raise self._unavailable(f"the package tensorrt_llm {what}: {_HOW_TO_GET_IT}") from error
        found = str(getattr(package, "__version__", ""))
        if release(found) < release(OLDEST):
            raise self._unavailable(
                f"TensorRT-LLM is of version {found or 'unknown'}, it must be {OLDEST} or later: "
                f"{_HOW_TO_GET_IT}"
            )
        return api

    # --- errors -----------------------------------------------------------------------------

    def _unavailable(self, message: str) -> EngineError:
        return EngineError(self._name, "unavailable", message)

    def _stalled(self) -> EngineError:
        return EngineError(
            self._name,
            "timeout",
            f"the engine gave no token of any request for {self._stall_s:g} s: look at the device "
            "with nvidia-smi, and restart this engine's process if it stays so",
        )

    def _no_memory(self, reasons: str) -> EngineError:
        return self._unavailable(
            "the device has too little memory: set a smaller kv_fraction (its "
            "free_gpu_memory_fraction) where the weights or a step do not fit, fewer slots (its "
            f"max_batch_size) than {self._slots}, or give it a larger slice ({reasons})"
        )

    def _not_loaded(self, error: Exception) -> EngineError:
        reasons = _reasons(error)
        if _OUT_OF_MEMORY.search(reasons):
            return self._no_memory(reasons)
        return self._unavailable(
            f"TensorRT-LLM cannot load it ({reasons}): check the model's folder and the options "
            "of this engine, and look into its log"
        )

    def _refused(self, error: Exception) -> EngineError:
        """Of one request: the engine lives."""
        reasons = _reasons(error)
        if _OUT_OF_MEMORY.search(reasons):
            return self._no_memory(reasons)
        ours = isinstance(error, ValueError) or _TOO_LONG.search(reasons)
        return EngineError(
            self._name,
            "bad_request" if ours else "failed",
            f"TensorRT-LLM refused the request: {reasons}"
            if ours
            else f"TensorRT-LLM failed the request ({reasons}): try again",
        )

    def _died_of(self, error: Exception) -> EngineError:
        """All that is no RequestError shuts the executor down (its _handle_background_error)."""
        self._death = self._death or f"TensorRT-LLM's engine has died ({_reasons(error)})"
        return self._dead()

    def _dead(self) -> EngineError:
        return self._unavailable(f"{self._death}: restart this engine's process")


def release(version: str) -> tuple[int, int, int, float]:
    """``1.3.0rc26`` as something that sorts; a final release after its candidates. What is no
    version sorts first."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?(?:rc(\d+)|(a|b|\.?dev))?", version)
    if match is None:
        return (0, 0, 0, 0)
    major, minor, patch, candidate, earlier = match.groups()
    last = float(candidate) if candidate else (-1.0 if earlier else float("inf"))
    return int(major), int(minor), int(patch or 0), last


_OUT_OF_MEMORY: Final = re.compile("out of memory|insufficient GPU memory", re.IGNORECASE)
_TOO_LONG: Final = re.compile(
    "should not exceed|must be greater than 0|max_seq_len|max_num_tokens|max_input_len"
)


def _reasons(error: BaseException | None) -> str:
    """What the error and its causes say, the first line of each."""
    said: list[str] = []
    while error is not None and len(said) < 4:
        # EngineDeadError repeats what killed the engine.
        error = getattr(error, "root_cause", None) or error
        text = str(getattr(error, "message", None) or error).strip() or type(error).__name__
        said.append(text.splitlines()[0][:300])
        error = error.__cause__
    return "; ".join(dict.fromkeys(said))


def _plain(logprobs: Mapping[int, Any]) -> dict[int, float]:
    return {token: entry.logprob for token, entry in logprobs.items()}
