"""The arguments of an engine: names, types and bounds."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

Fraction = Annotated[float, Field(ge=0, le=1)]


class StrictBaseModel(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())


class CapacitySchedulerPolicy(enum.StrEnum):
    MAX_UTILIZATION = "MAX_UTILIZATION"
    GUARANTEED_NO_EVICT = "GUARANTEED_NO_EVICT"
    STATIC_BATCH = "STATIC_BATCH"


class ContextChunkingPolicy(enum.StrEnum):
    FIRST_COME_FIRST_SERVED = "FIRST_COME_FIRST_SERVED"
    EQUAL_PROGRESS = "EQUAL_PROGRESS"


class WaitingQueuePolicy(enum.StrEnum):
    FCFS = "fcfs"


class SchedulerConfig(StrictBaseModel):
    capacity_scheduler_policy: CapacitySchedulerPolicy = CapacitySchedulerPolicy.GUARANTEED_NO_EVICT
    context_chunking_policy: ContextChunkingPolicy | None = None
    dynamic_batch_config: Any = None
    waiting_queue_policy: WaitingQueuePolicy = WaitingQueuePolicy.FCFS
    use_python_scheduler: bool = False
    enable_prefix_aware_scheduling: bool = True


class KvCacheConfig(StrictBaseModel):
    enable_block_reuse: bool = True
    max_tokens: int | None = None
    max_attention_window: list[PositiveInt] | None = None
    sink_token_length: int | None = None
    free_gpu_memory_fraction: Fraction | None = 0.9
    host_cache_size: int | None = None
    cross_kv_cache_fraction: float | None = None
    secondary_offload_min_priority: int | None = None
    event_buffer_max_size: int = 0
    enable_partial_reuse: bool = True
    copy_on_partial_reuse: bool = True
    max_gpu_total_bytes: NonNegativeInt = 0
    dtype: str = "auto"
    tokens_per_block: int = 32
    use_kv_cache_manager_v2: bool | Literal["auto"] = "auto"


class CudaGraphConfig(StrictBaseModel):
    batch_sizes: list[int] | None = None
    max_batch_size: NonNegativeInt = 0
    enable_padding: bool = False

    @model_validator(mode="after")
    def _agree(self) -> CudaGraphConfig:
        if self.batch_sizes:
            largest = max(self.batch_sizes)
            if self.max_batch_size not in (0, largest):
                raise ValueError(
                    "cuda_graph_config.max_batch_size is not the largest of batch_sizes"
                )
            self.max_batch_size = largest
        return self


class TorchLlmArgs(StrictBaseModel):
    model: str | Path
    tokenizer: Any = None
    tokenizer_mode: Literal["auto", "slow"] = "auto"
    skip_tokenizer_init: bool = False
    trust_remote_code: bool = False
    tensor_parallel_size: int = 1
    dtype: str = "auto"
    revision: str | None = None
    tokenizer_revision: str | None = None
    model_kwargs: dict[str, Any] | None = None
    pipeline_parallel_size: int = 1
    kv_cache_config: KvCacheConfig = Field(default_factory=KvCacheConfig)
    enable_chunked_prefill: bool = False
    guided_decoding_backend: Literal["xgrammar", "llguidance"] | None = None
    scheduler_config: SchedulerConfig = Field(default_factory=SchedulerConfig)
    max_batch_size: int | None = 2048
    max_input_len: int | None = 1024
    max_seq_len: int | None = None
    max_beam_width: int | None = 1
    max_num_tokens: int | None = 8192
    backend: Literal["pytorch"] = "pytorch"
    return_perf_metrics: bool = False
    orchestrator_type: Literal["rpc", "ray"] | None = None
    cuda_graph_config: CudaGraphConfig | None = Field(default_factory=CudaGraphConfig)
    disable_overlap_scheduler: bool = False
    attn_backend: str = "TRTLLM"
    sampler_type: str = "auto"
    enable_iter_perf_stats: bool = False
    batch_wait_timeout_ms: Annotated[float, Field(ge=0)] = 0
    stream_interval: PositiveInt = 1
    encoder_max_batch_size: int | None = None
    load_format: str = "auto"


LLM_ARGUMENTS = frozenset(TorchLlmArgs.model_fields)
