"""An engine that writes what the test's script says."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

from tensorrt_llm import pretend
from tensorrt_llm._torch.models.modeling_whisper import WhisperInputProcessor
from tensorrt_llm.executor.engine import Executor, Running
from tensorrt_llm.executor.result import CompletionOutput
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
