"""An engine that writes what the test's script says."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import pickle
from pathlib import Path
from typing import Any

from tensorrt_llm import pretend
from tensorrt_llm._torch.models.modeling_whisper import WhisperInputProcessor
from tensorrt_llm.executor.result import CompletionOutput, Logprob
from tensorrt_llm.executor.utils import EngineDeadError, RequestError
from tensorrt_llm.llmapi.llm_args import LLM_ARGUMENTS, TorchLlmArgs
from tensorrt_llm.sampling_params import SamplingParams


def _has_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class RequestOutput:
    """A request, its answer so far, and the queue by which more of it comes."""

    def __init__(
        self, executor: Executor, number: int, ids: list[int], params: SamplingParams
    ) -> None:
        self.request_id = number
        self.prompt_token_ids = ids
        self.sampling_params = params
        self.outputs = [CompletionOutput(0)]
        self.cached_tokens = 0
        self._executor = executor
        self._aborted = False
        self._done = False
        self.aqueue: asyncio.Queue[Any] | None = asyncio.Queue() if _has_event_loop() else None

    @property
    def finished(self) -> bool:
        return self._done

    def abort(self) -> None:
        """Asks for the end, which comes later as a response: finish reason ``cancelled``."""
        self._executor.abort_request(self.request_id)
        self._aborted = True

    def aborted(self) -> bool:
        return self._aborted

    def __aiter__(self) -> RequestOutput:
        return self

    async def __anext__(self) -> RequestOutput:
        if self._done:
            raise StopAsyncIteration
        await self._aresult_step()
        return self

    async def _aresult_step(self) -> None:
        assert self.aqueue is not None, (
            "The asyncio event loop was not present during initialization, so async operations "
            "are not available."
        )
        response = await self.aqueue.get()
        if isinstance(response, BaseException):
            if isinstance(response, EngineDeadError):
                self.aqueue.put_nowait(response)  # it stays so, however often one asks
            raise response
        tokens, logprobs, reason = response
        output = self.outputs[0]
        output._last_token_ids_len = len(output.token_ids)
        output._last_logprobs_len = len(output.logprobs)
        output.token_ids.extend(tokens)
        output.logprobs = output.logprobs + logprobs
        output.finish_reason = reason
        self.cached_tokens = pretend.cached_tokens
        self._done = reason is not None
        for token in self.sampling_params.stop_token_ids or ():
            ended_otherwise = token == self.sampling_params.end_id
            if self._done and not ended_otherwise and output.token_ids[-1:] == [token]:
                output.stop_reason = token
                output.token_ids.pop()
                break


class Executor:
    """Runs at most ``max_batch_size`` requests at a time, in order of arrival."""

    def __init__(self, args: TorchLlmArgs) -> None:
        self.args = args
        self.running: dict[int, Running] = {}
        self.waiting: dict[int, Running] = {}
        self.aborts: list[int] = []
        self.most_running = 0
        self.fatal: BaseException | None = None
        self.is_down = False
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def submit(self, request: Running) -> None:
        self.waiting[request.result.request_id] = request
        self._wake()

    def abort_request(self, number: int) -> None:
        if self.is_down:
            raise RuntimeError("the request queue is closed")
        self.aborts.append(number)
        self._wake()

    def shutdown(self, cause: BaseException | None = None) -> None:
        self.is_down = True
        self.fatal = self.fatal or cause
        pending = [*self.running.values(), *self.waiting.values()]
        self.running.clear()
        self.waiting.clear()
        for request in pending:
            request.end(cause)

    async def wait_idle(self) -> None:
        """For tests: until no request is left in here."""
        if self._task is not None:
            await self._task

    def _wake(self) -> None:
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="fake engine")

    async def _run(self) -> None:
        while self.running or self.waiting or self.aborts:
            self._changed.clear()
            self._drop_aborted()
            while self.waiting and len(self.running) < (self.args.max_batch_size or 1):
                number = next(iter(self.waiting))
                self.running[number] = self.waiting.pop(number)
            self.most_running = max(self.most_running, len(self.running))
            moved = [request.step() for request in list(self.running.values())]
            self.running = {n: r for n, r in self.running.items() if not r.ended}
            if any(moved) or not self.running:
                await asyncio.sleep(0)
            else:
                await self._wait_for_change()

    def _drop_aborted(self) -> None:
        for number in self.aborts:
            request = self.running.pop(number, None) or self.waiting.pop(number, None)
            if request is not None:
                request.respond([], [], "cancelled")
        self.aborts.clear()

    async def _wait_for_change(self) -> None:
        holds = [request.hold for request in self.running.values() if request.hold]
        waits = [asyncio.ensure_future(event.wait()) for event in (self._changed, *holds)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class Running:
    """One request inside the engine."""

    def __init__(self, executor: Executor, result: RequestOutput, most: int) -> None:
        self.executor = executor
        self.result = result
        self.params = result.sampling_params
        self.most = most
        self.steps = iter(pretend.script(list(result.prompt_token_ids), self.params))
        self.tokens: list[int] = []
        self.logprobs: list[dict[int, Logprob]] = []
        self.unsent = 0
        self.hold: pretend.Hold | None = None
        self.ended = False
        processors = self.params.logits_processor or []
        processors = processors if isinstance(processors, list) else [processors]
        self.processors = [pickle.loads(pickle.dumps(one)) for one in processors]

    def step(self) -> bool:
        """One token further; False where the test holds it."""
        if self.hold is not None and not self.hold.is_set():
            return False
        self.hold = None
        match next(self.steps, None):
            case pretend.Hold() as hold:
                self.hold = hold
                hold.reached.set()
            case pretend.GivesUp():
                self.respond([], [], "cancelled")
            case pretend.Fails(message):
                self.end(RequestError(message))
            case pretend.Dies(error):
                self.executor.shutdown(error)
            case pretend.Step(token, logprobs):
                self._add(token, dict(logprobs))
            case None:
                end = self.params.end_id
                self._add(0 if end is None else end, {})
            case token:
                self._add(token, {})
        return True

    def end(self, error: BaseException | None) -> None:
        self.ended = True
        if error is None or self.result.aqueue is None:
            return
        dead = pretend.tells_of_death and self.executor.is_down
        self.result.aqueue.put_nowait(EngineDeadError(error) if dead else error)

    def respond(self, tokens: list[int], logprobs: list[Any], reason: str | None) -> None:
        self.ended = reason is not None
        if self.result.aqueue is not None:
            self.result.aqueue.put_nowait((tokens, logprobs, reason))

    def _add(self, token: int, logprobs: dict[int, float]) -> None:
        token = self._process(token, logprobs)
        self.tokens.append(token)
        self.unsent += 1
        if self.params.logprobs is not None:
            self.logprobs.append(self._ranked(token, logprobs))
        reason = self._reason(token)
        if reason or self.unsent >= (self.executor.args.stream_interval or 1):
            self.respond(self.tokens[-self.unsent :], self.logprobs[-self.unsent :], reason)
            self.unsent = 0

    def _reason(self, token: int) -> str | None:
        ends = token == self.params.end_id and not self.params.ignore_eos
        if ends or token in (self.params.stop_token_ids or ()):
            return "stop"
        return "length" if len(self.tokens) >= self.most else None

    def _ranked(self, token: int, logprobs: dict[int, float]) -> dict[int, Logprob]:
        """The token that was drawn first, then the ``logprobs`` likeliest."""
        ranked = sorted(logprobs.items(), key=lambda item: -item[1])
        ranks = {each: place for place, (each, _) in enumerate(ranked, 1)}
        chosen = {token: Logprob(logprobs.get(token, 0.0), ranks.get(token, 1))}
        for each, value in ranked[: self.params.logprobs]:
            chosen.setdefault(each, Logprob(value, ranks[each]))
        return chosen

    def _process(self, wanted: int, logprobs: dict[int, float]) -> int:
        """The likeliest token after the logits processors, if there are any."""
        if not self.processors:
            return wanted
        import torch

        size = pretend.vocabulary or max(wanted, *logprobs, 0) + 1
        rows = torch.full((1, 1, size), -20.0)
        for token, value in logprobs.items():
            rows[..., token] = value
        rows[..., wanted] = max([0.0, *logprobs.values()]) + 1.0
        lags = not self.executor.args.disable_overlap_scheduler and self.tokens
        known = [*self.result.prompt_token_ids, *(self.tokens[:-1] if lags else self.tokens)]
        for processor in self.processors:
            assert 4 <= len(inspect.signature(processor).parameters) <= 5
            processor(self.result.request_id, rows, [known], None, None)
        return int(rows.argmax())


class LLM:
    """The PyTorch backend."""

    def __init__(
        self,
        model: str | Path,
        tokenizer: Any = None,
        tokenizer_mode: str = "auto",
        skip_tokenizer_init: bool = False,
        trust_remote_code: bool = False,
        tensor_parallel_size: int = 1,
        dtype: str = "auto",
        revision: str | None = None,
        tokenizer_revision: str | None = None,
        **kwargs: Any,
    ) -> None:
        for key in kwargs:
            if key not in LLM_ARGUMENTS:
                raise ValueError(f"LLM got invalid argument: {key}")
        self.args = TorchLlmArgs(
            model=model,
            tokenizer=tokenizer,
            tokenizer_mode=tokenizer_mode,  # type: ignore[arg-type]
            skip_tokenizer_init=skip_tokenizer_init,
            trust_remote_code=trust_remote_code,
            tensor_parallel_size=tensor_parallel_size,
            dtype=dtype,
            revision=revision,
            tokenizer_revision=tokenizer_revision,
            **kwargs,
        )
        pretend.built.append({"model": model, "skip_tokenizer_init": skip_tokenizer_init, **kwargs})
        pretend.engines.append(self)
        if pretend.load_error is not None:
            raise RuntimeError("Executor worker returned error") from pretend.load_error
        if (
            pretend.whisper is not None
            and self.args.kv_cache_config.cross_kv_cache_fraction is None
        ):
            raise ValueError("cross_kv_cache_fraction is required for encoder-decoder models")
        self.tokenizer = None if skip_tokenizer_init else (tokenizer or pretend.tokenizer)
        self.input_processor: Any = (
            WhisperInputProcessor(pretend.whisper) if pretend.whisper else self._text_processor
        )
        self._executor: Executor | None = Executor(self.args)
        self._numbers = itertools.count(2)

    def _text_processor(self, inputs: dict[str, Any], params: SamplingParams) -> Any:
        if self.tokenizer is None:
            raise ValueError("tokenizer is required to tokenize string prompt")
        ids = self.tokenizer.encode(inputs["prompt"], add_special_tokens=params.add_special_tokens)
        return ids, None

    def generate_async(
        self,
        inputs: Any,
        sampling_params: SamplingParams | None = None,
        lora_request: Any = None,
        prompt_adapter_request: Any = None,
        streaming: bool = False,
        kv_cache_retention_config: Any = None,
        disaggregated_params: Any = None,
        _postproc_params: Any = None,
        scheduling_params: Any = None,
        cache_salt: str | None = None,
    ) -> RequestOutput:
        executor = self._executor
        if executor is None or executor.is_down:
            if executor is not None and executor.fatal and pretend.tells_of_death:
                raise EngineDeadError(executor.fatal)
            raise RuntimeError("LLM is shutting down")
        params = self._prepare_sampling_params(sampling_params)
        ids = self._ids(inputs, params)
        self._check_encoder()
        limit = self.args.max_num_tokens
        if not self.args.enable_chunked_prefill and limit and len(ids) > limit:
            raise RequestError(
                f"The prompt length ({len(ids)}) should not exceed max_num_tokens ({limit})"
            )
        result = RequestOutput(executor, next(self._numbers), ids, params)
        executor.submit(Running(executor, result, self._most(ids, params)))
        return result

    def shutdown(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _prepare_sampling_params(self, params: SamplingParams | None) -> SamplingParams:
        params = SamplingParams() if params is None else params
        if not isinstance(params, SamplingParams):
            raise TypeError(
                f"The sampling_params must be type SamplingParams or None, but got {type(params)}"
            )
        if params.end_id is None:
            if self.tokenizer is None:
                raise ValueError(
                    "tokenizer is required to reset end_id if it is None, or you can explicitly "
                    "specify the end_id for sampling_params"
                )
            params._setup(self.tokenizer)
        params._get_stop_words()
        return params

    def _ids(self, inputs: Any, params: SamplingParams) -> list[int]:
        if isinstance(inputs, str):
            inputs = {"prompt": inputs}
        if isinstance(inputs, list):
            inputs = {"prompt_token_ids": inputs}
        if not isinstance(inputs, dict) or not {"prompt", "prompt_token_ids"} & set(inputs):
            raise TypeError(f"The inputs must be type str or list of int, but got {type(inputs)}")
        if "prompt_token_ids" in inputs and pretend.whisper is None:
            ids = inputs["prompt_token_ids"]
        else:
            ids, _ = self.input_processor(inputs, params)
        assert isinstance(ids, list)
        assert isinstance(ids[0], int)
        return ids

    def _check_encoder(self) -> None:
        positions = pretend.whisper.max_source_positions if pretend.whisper else 0
        most = self.args.max_input_len
        if most is not None and positions > most:
            raise RequestError(
                f"The encoder output length ({positions}) should not exceed max_input_len ({most})"
            )

    def _most(self, ids: list[int], params: SamplingParams) -> int:
        """How many tokens the answer may have. What does not fit fails in the worker."""
        if self.args.max_seq_len is None:
            assert params.max_tokens is not None
            return params.max_tokens
        room = self.args.max_seq_len - len(ids)
        if room <= 0:
            raise RequestError(
                f"`default_max_tokens` ({room}) must be greater than 0, `default_max_tokens` "
                f"({room}) = max_seq_len ({self.args.max_seq_len}) - `splited_prompt_len` "
                f"({len(ids)})"
            )
        return room if params.max_tokens is None else min(params.max_tokens, room)
