"""What goes between the process that reports and the processes that call: one JSON line each.

Times ``at_s`` are seconds since the run began; what ends in ``_ms`` are milliseconds.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from loadtest.habits import Habits

Outcome: TypeAlias = Literal["answered", "early", "unanswered", "failed", "hung_up", "unfinished"]
Barge: TypeAlias = Literal["stopped", "missed", "moot"]


class Arrival(Struct, frozen=True):
    """One caller: dials at ``at_s``; frames leave in ``slot`` of those that 20 ms have."""

    number: int
    at_s: float
    slot: int
    silent: bool = False


class Plan(Struct, frozen=True, kw_only=True):
    """What one process of callers is to do. ``start``: the monotonic clock at second 0; turns
    begin until ``end_s``, and are waited for until ``drain_s`` later."""

    url: str
    speech: str
    wire: str
    arrivals: list[Arrival]
    habits: Habits
    end_s: float
    drain_s: float
    seed: int
    api_key: str | None = None
    model: str | None = None
    backchannels: str | None = None
    silence_ms: int | None = None
    max_tokens: int | None = None
    redial: bool = True


class TurnRecord(Struct, kw_only=True, tag="turn"):
    """One turn. Latencies run from the last speech sample of the clip, None where it never came.

    ``first_audio_ms``, ``sentence_ms`` (the first sentence's last sample is there), ``onset_ms``
    (the first audible sample sounds), ``commit_ms`` (the server takes the turn for over).
    ``stop_ms``: from the first sound of a barge-in to silence. ``gaps_ms``: between the
    arrivals of a reply's audio. ``cuts``: how often the server took the middle for the end.
    """

    call: int
    at_s: float
    clip: str
    outcome: Outcome
    first_audio_ms: float | None = None
    sentence_ms: float | None = None
    onset_ms: float | None = None
    commit_ms: float | None = None
    waited_ms: float = 0.0
    barge: Barge | None = None
    stop_ms: float | None = None
    backchannel: bool = False
    false_stops: int = 0
    underruns: int = 0
    underrun_ms: float = 0.0
    gaps_ms: list[float] = field(default_factory=list)
    audio_ms: float = 0.0
    cuts: int = 0
    said: str = ""
    heard: str = ""
    paused: bool = False


class CallRecord(Struct, kw_only=True, tag="call"):
    """One call that ended, or was never let in. ``status``: of the handshake, 0 for no answer;
    ``answer_ms``: from dialling to that answer. ``phantoms``: replies to a caller who said
    nothing."""

    call: int
    at_s: float
    end: Literal["done", "hung_up", "lost", "refused", "failed"]
    status: int = 0
    answer_ms: float | None = None
    seconds: float = 0.0
    frames: int = 0
    phantoms: int = 0
    silent: bool = False
    why: str = ""
    errors: list[str] = field(default_factory=list)


class Progress(Struct, kw_only=True, tag="progress"):
    """How a process of callers does, so far. ``session_s``: seconds of all its open calls;
    ``late``: frames by how late they were sent, in tenths of a millisecond."""

    at_s: float
    open: int
    talking: int
    speaking: int
    cpu_s: float
    session_s: float
    late: dict[int, int] = field(default_factory=dict)
    last: bool = False


class Trouble(Struct, kw_only=True, tag="trouble"):
    """The process cannot go on."""

    message: str


Record: TypeAlias = TurnRecord | CallRecord | Progress | Trouble

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Record).decode
decode_plan = msgspec.json.Decoder(Plan).decode
