"""What an engine process is told: which engine, where it runs, and how long anyone waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["asr", "llm", "tts"]


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """An engine by the full import path of its module (``engines.tts.orpheus``).

    ``options``: plain values for the module's ``Options``; the process turns them into it, so
    that nobody else needs to import the module. ``models_dir`` None: the user's cache folder.
    """

    kind: Kind
    module: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    models_dir: str | None = None

    @property
    def name(self) -> str:
        """The engine's name in errors and logs."""
        return self.module.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one process runs: ``environment`` is set before its interpreter starts, which is
    what makes ``CUDA_VISIBLE_DEVICES`` count."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one side waits for the other.

    Every ``beat_s`` both sides say that they live; whoever is silent for ``missed_beats`` of
    them is given up. A process whose requests get nothing for ``stalled_s`` hangs. A dead one
    is started again after ``restart_s``, doubled with each failure in a row up to
    ``longest_restart_s``. A request waits ``place_s`` for a process when none is there.
    """

    beat_s: float = 0.5
    missed_beats: int = 10
    stalled_s: float = 60.0
    warm_up_s: float = 1800.0
    drain_s: float = 10.0
    restart_s: float = 0.5
    longest_restart_s: float = 30.0
    place_s: float = 5.0


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """All that one engine process is told, as JSON. ``endpoint``: the ZeroMQ address it binds."""

    engine: EngineSpec
    place: str
    endpoint: str
    patience: Patience = field(default_factory=Patience)
