"""Traces of calls, for OpenTelemetry: one trace a call, spans for turns, replies and stages.

Off unless ``traces.endpoint`` is set; then the extra ``traces`` is needed. No span holds a word
that was said. Names and attributes are those of OpenTelemetry's conventions for generative AI and
for messaging (both of 2026, in development), as far as those go: a call is an agent's invocation,
a caller's turn a message that is processed, a reply one that is sent. Times are of the call's own
clock, put beside the wall clock's at its beginning.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from msgspec import Meta

from engines.extras import how_to_install
from pipelines.conversation.ports import Observer
from voice.config_files import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

    from voice.config import Config, EngineConfig

SCOPE: Final = "antiphon"
_SEND_PATH: Final = "/v1/traces"
_SEND_S: Final = 3.0
"""Then a batch is given up: a server that is told to stop waits no longer for a collector."""

_TAKES_ALL: Final = ("", "/")


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Where traces go. ``endpoint``: a collector that takes OTLP over HTTP; ``headers``, each
    NAME=VALUE, go with all that is sent; ``sample``: the share of calls; ``service``: this
    server's name. A caller's own trace (``traceparent``) is gone on with, as it was sampled."""

    endpoint: str | None = None
    headers: tuple[str, ...] = field(default=(), repr=False)
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    service: str = "antiphon"

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            _check_endpoint(self.endpoint)
        for number, header in enumerate(self.headers, 1):
            if not header.partition("=")[0].strip() or "=" not in header:
                raise ConfigError(f"traces.headers: number {number} is not NAME=VALUE")


@dataclass(frozen=True, slots=True)
class Model:
    """What an engine is called in a trace. ``apart``: it is reached over a wire."""

    provider: str
    name: str
    apart: bool = False


class Traces:
    """Follows the calls of one server, where it is to. ``processor``: where spans go instead of
    to the endpoint.

    Raises ConfigError where a package is missing.
    """

    def __init__(self, config: Config, processor: SpanProcessor | None = None) -> None:
        self._models = {kind: _model(config, kind) for kind in ("asr", "llm", "tts")}
        self._provider: Any = None
        if config.traces.endpoint is None and processor is None:
            return
        try:
            self._provider = _provider(config.traces, processor)
        except ImportError as error:
            raise ConfigError(
                f"traces.endpoint: traces need {error.name}, which is not installed:"
                f" {how_to_install('traces')}"
            ) from error

    @contextmanager
    def follow(self, call: str, headers: Mapping[str, str]) -> Iterator[tuple[Observer, ...]]:
        """What traces a call, until the end of the context; nothing where nobody wants to know.
        ``headers``: of the request that the call began with."""
        if self._provider is None:
            yield ()
            return
        from voice.call_trace import CallTrace, parent_of

        tracer, loop = self._provider.get_tracer(SCOPE), asyncio.get_running_loop()
        epoch_ns = time.time_ns() - round(loop.time() * 1e9)
        trace = CallTrace(tracer, self._models, call, loop.time, epoch_ns, parent_of(headers))
        with closing(trace):
            yield (trace,) if trace.is_recording else ()

    def close(self) -> None:
        """Send what is left. Takes seconds where nobody answers. Blocks."""
        if self._provider is not None:
            self._provider.shutdown()


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise ConfigError(
            f"traces.endpoint: {endpoint!r} is no address: write it as http://HOST:4318, where a"
            " collector takes OTLP over HTTP"
        )


def _model(config: Config, kind: str) -> Model:
    section: EngineConfig = getattr(config, kind)
    name = section.options.get("model") or section.engine
    apart = section.engine == "openai" or bool(getattr(config.placement, kind))
    return Model(section.engine, str(name), apart)


def _provider(settings: TraceSettings, processor: SpanProcessor | None) -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.sample)),
        resource=Resource.create({"service.name": settings.service}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(processor or _sender(settings))
    return provider


def _sender(settings: TraceSettings) -> SpanProcessor:
    """Sends spans in batches, from a thread of its own."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    endpoint = settings.endpoint or ""
    if urlsplit(endpoint).path in _TAKES_ALL:
        endpoint = endpoint.rstrip("/") + _SEND_PATH
    pairs = (header.partition("=") for header in settings.headers)
    headers = {name.strip(): value.strip() for name, _, value in pairs}
    exporter = OTLPSpanExporter(endpoint=endpoint, headers=headers, timeout=_SEND_S)
    return BatchSpanProcessor(exporter)
