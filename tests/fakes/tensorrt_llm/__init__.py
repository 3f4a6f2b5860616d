"""A stand-in for NVIDIA's package of this name: the published names, keyword arguments and
errors of its PyTorch backend, and tokens that a test makes up (``tensorrt_llm.pretend``).

Taken from, as of August 2026 (the documented reference of 1.3.0rc27 and 1.4.0rc4, and the
sources of main between them):

- ``LLM``, ``generate_async``: tensorrt_llm/llmapi/llm.py, ``BaseLLM.__init__`` (ValueError for an
  unknown argument), ``generate_async``, ``_prepare_sampling_params``, ``_check_arguments``
  (RequestError past ``max_num_tokens``).
- ``KvCacheConfig``, ``SchedulerConfig``, ``CudaGraphConfig``, ``TorchLlmArgs``:
  tensorrt_llm/llmapi/llm_args.py, the classes of the same name (pydantic, ``extra="forbid"``).
- ``SamplingParams``, ``LogitsProcessor``: tensorrt_llm/sampling_params.py.
- ``CompletionOutput``, ``Logprob``, ``RequestOutput``: tensorrt_llm/executor/result.py,
  ``GenerationResultBase._handle_sequence``, ``GenerationResult.abort`` and ``_aresult_step``.
- ``RequestError``, ``EngineDeadError``: tensorrt_llm/executor/utils.py. ``CppExecutorError``:
  tensorrt_llm/executor/executor.py, with ``_handle_background_error``, by which all that is no
  RequestError shuts the engine down.
- The length of a prompt and its answer: tensorrt_llm/executor/base_worker.py,
  ``_deduce_max_tokens``.
- The call of a logits processor: tensorrt_llm/_torch/pyexecutor/engine/runners/decoder.py,
  ``_execute_logit_post_processors``: rows (beams, 1, vocabulary), token ids with the prompt's in
  front. Under the overlap scheduler it runs before the token of the step before has been added,
  so the ids are one behind.
- ``WhisperInputProcessor``: tensorrt_llm/_torch/models/modeling_whisper.py, the checks of
  ``__call__``, ``_load_waveform`` and ``_resolve_decoder_prompt``; ``max_tokens`` is capped in the
  caller's own SamplingParams. Docs: docs/source/models/encoder-decoder.md.
- Out of memory at the start: tensorrt_llm/_torch/pyexecutor/py_executor_creator.py,
  ``_maybe_explain_if_oom``, which tensorrt_llm/executor/proxy.py makes the cause of "Executor
  worker returned error".

The real engine runs in a process of its own; here it is a task of the running loop, which does
one step of every running request a turn of the loop.
"""

from tensorrt_llm.llmapi import LLM, SamplingParams

__version__ = "1.3.0rc26"

__all__ = ["LLM", "SamplingParams", "__version__"]
