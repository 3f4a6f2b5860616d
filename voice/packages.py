"""Packages that only some engines need: which, whether they are here, and how they are got."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

from engines.extras import how_to_install, install_command
from voice.config import EngineConfig

TENSORRT_LLM: Final = "tensorrt_llm"
NVML: Final = "nvidia-ml-py"
PYANNOTE: Final = "pyannote.audio"
TRACES: Final = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
_OLDEST_TENSORRT_LLM: Final = (1, 3)  # 1.2 has no Whisper, and its sampler drops a penalty
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "diarization.pyannote": (PYANNOTE,),
    "asr.whisper_trtllm": (TENSORRT_LLM,),
    "asr.whisper_transformers": ("torch", "transformers"),
    "llm.trtllm": (TENSORRT_LLM,),
    "tts.orpheus": ("torch", "snac"),
}
_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "trtllm": (TENSORRT_LLM,),
    "transformers": ("torch", "transformers"),
}


@dataclass(frozen=True, slots=True)
class Extra:
    """A package that only some features need: how it is called, what for, and how it is got."""

    name: str
    purpose: str
    how: str


EXTRAS: Final = (
    Extra("torch", "Orpheus; Whisper in PyTorch", how_to_install("orpheus")),
    Extra("snac", "Orpheus, its audio decoder", how_to_install("orpheus")),
    Extra("transformers", "Orpheus; Whisper in PyTorch", how_to_install("orpheus")),
    Extra(
        TENSORRT_LLM,
        "Whisper, Orpheus and chat at full speed on NVIDIA GPUs",
        "run in NVIDIA's TensorRT-LLM container, 1.3.0rc26 or later (docs/gpu.md)",
    ),
    Extra("av", "files that are no WAV, FLAC, Ogg or MP3; speech as AAC", how_to_install("files")),
    Extra(PYANNOTE, "telling speakers apart in files", how_to_install("diarize")),
    Extra(NVML, "listing GPUs, [placement] on them", f"`{install_command(NVML)}`"),
    *(Extra(name, "traces of calls", how_to_install("traces")) for name in TRACES),
)


@dataclass(frozen=True, slots=True)
class Package:
    """An optional package as it is here. ``version`` empty: missing. ``needed_by``: engines."""

    name: str
    purpose: str
    version: str
    how: str
    needed_by: tuple[str, ...]


def needs_of(kind: str, section: EngineConfig, options: Any = None) -> tuple[str, ...]:
    """The packages that an engine needs; with its ``options``, those of its parts, too."""
    source = _SOURCES.get(getattr(options, "source", ""), ())
    return (*_NEEDS.get(f"{kind}.{section.engine}", ()), *source)


def packages(needed: Mapping[str, Sequence[str]]) -> Iterator[Package]:
    """All of EXTRAS, as they are here. ``needed``: package -> the kinds of engine that need it."""
    for extra in EXTRAS:
        by = tuple(needed.get(extra.name, ()))
        yield Package(extra.name, extra.purpose, version_of(extra.name), extra.how, by)


def faults(found: Iterable[Package]) -> dict[str, tuple[str, ...]]:
    """What is wrong with packages that are needed -> the kinds of engine that suffer. Those that
    one command brings are told together."""
    wrong: dict[str, tuple[str, ...]] = {}
    missing: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for package in found:
        if not package.needed_by:
            continue
        if not package.version:
            missing.setdefault((package.needed_by, package.how), []).append(package.name)
        elif package.name == TENSORRT_LLM and _is_old(package.version):
            told = f"{package.name} {package.version} is too old: {package.how}"
            wrong[f"{' and '.join(package.needed_by)}: {told}"] = package.needed_by
    for (by, how), names in missing.items():
        what = "the package {} is" if len(names) == 1 else "the packages {} are"
        told = what.format(", ".join(names))
        wrong[f"{' and '.join(by)}: {told} missing: {how}"] = by
    return wrong


def version_of(name: str) -> str:
    """The version that is installed; empty where the package is not."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
    found = name.isidentifier() and importlib.util.find_spec(name) is not None
    return "of no known version" if found else ""


def _is_old(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < _OLDEST_TENSORRT_LLM
