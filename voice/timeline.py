"""A journal as a picture: what went on for how long, in lanes, as one page that needs nothing else.

The page is ``timeline.html`` with the data of one call put in; its script draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from pipelines.conversation.events import (
    AcceptTranscript,
    CommitTurn,
    ConfirmTurn,
    DiscardTurn,
    DropReply,
    DropTake,
    FailTranscript,
    OpenTurn,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ReplyEnded,
    ReplySounded,
    ResumeReply,
    SayLine,
    SettingsChanged,
    StartReply,
    StopReply,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
    WindowHeard,
)
from pipelines.conversation.playback import Player
from pipelines.conversation.reply import Stages
from voice.journal import Recorded, Said, Staged, Step
from voice.replay import Difference, Line, details_of, in_words, lines

_PAGE: Final = Path(__file__).with_name("timeline.html")
_DATA: Final = "__CALL__"
_WINDOW_MS: Final = 32
_INSTANTS: Final = ("stopped", "dropped", "discarded", "failed")
"""How something ended: drawn though it takes no time."""


@dataclass(slots=True)
class Bar:
    """Something that went on from ``start`` to ``end``, in ms since the call began. ``kind`` says
    how it looks, ``label`` is read on it, ``detail`` beside it."""

    start: float
    end: float
    kind: str
    label: str = ""
    detail: str = ""


@dataclass(slots=True)
class Row:
    """The bars of one turn, take or reply, one after the other."""

    name: str
    bars: list[Bar] = field(default_factory=list)

    def begin(self, at: float, kind: str) -> Bar:
        """Whatever went on is over, and this goes on."""
        self.end(at)
        self.bars.append(Bar(at, float("inf"), kind))
        return self.bars[-1]

    def end(self, at: float) -> None:
        """What goes on ends here, if it does not end before."""
        if self.bars:
            self.bars[-1].end = min(self.bars[-1].end, max(at, self.bars[-1].start))


@dataclass(slots=True)
class Timeline:
    """All lanes. ``windows``: a list each of times, probabilities, levels and echo shares."""

    end: float = 0.0
    windows: tuple[list[float], list[float | None], list[float], list[float]] = field(
        default_factory=lambda: ([], [], [], [])
    )
    turns: dict[int, Row] = field(default_factory=dict)
    takes: dict[int, Row] = field(default_factory=dict)
    replies: dict[int, Row] = field(default_factory=dict)
    heard: list[Bar] = field(default_factory=list)
    stages: list[Row] = field(default_factory=list)
    marks: list[Line] = field(default_factory=list)


def weave(recorded: Recorded) -> Timeline:
    """The lanes of a call."""
    weaver = _Weaver(recorded)
    for entry in recorded.entries:
        at = entry.now - recorded.header.clock_ms
        weaver.timeline.end = max(weaver.timeline.end, at)
        match entry:
            case Step():
                for thing in (entry.event, *entry.commands):
                    weaver.take(thing, at)
            case Said():
                weaver.say(entry, at)
            case Staged():
                weaver.stage(entry.stages)
    return weaver.finish()


def page(recorded: Recorded, differ: Iterable[Difference]) -> str:
    """The timeline as a page of its own, which needs no network."""
    timeline, differ = weave(recorded), list(differ)
    header = recorded.header
    call = {
        "call": header.call,
        "began": header.began,
        "end": timeline.end,
        "whole": recorded.whole,
        "closed": recorded.closed,
        "differ": len(differ),
        "windows": timeline.windows,
        "lanes": {
            "turns": _packed(timeline.turns.values()),
            "takes": _packed(timeline.takes.values()),
            "replies": _packed(timeline.replies.values()),
            "heard": [[Row("", timeline.heard)]],
            "stages": _packed(timeline.stages),
        },
        "marks": timeline.marks,
        "lines": lines(recorded, differ),
    }
    data = msgspec.json.encode(call).decode().replace("<", "\\u003c")  # no tag can end the script
    return _PAGE.read_text("utf-8").replace(_DATA, data)


def _packed(rows: Iterable[Row]) -> list[list[Row]]:
    """As few tracks as hold all rows, where none lies over another."""
    tracks: list[list[Row]] = []
    for row in rows:
        start = row.bars[0].start
        free = next((track for track in tracks if track[-1].bars[-1].end <= start), None)
        if free is None:
            tracks.append([row])
        else:
            free.append(row)
    return tracks


def _is_seen(bar: Bar) -> bool:
    return bar.end > bar.start or bar.kind in _INSTANTS


class _Weaver:
    """Follows a call and draws it; ``finish`` ends what still goes on."""

    def __init__(self, recorded: Recorded) -> None:
        self.timeline = Timeline()
        self._clock_ms = recorded.header.clock_ms
        self._player = Player()
        self._phrase = ""

    def take(self, thing: Any, at: float) -> None:
        """An event, or a command."""
        draw = _DRAW.get(type(thing))
        if draw is not None:
            draw(self, thing, at)
        else:
            self._mark(at, in_words(type(thing).__name__), details_of(thing))

    def _mark(self, at: float, title: str, detail: str = "") -> None:
        self.timeline.marks.append(Line(at, "event", title, detail))

    def say(self, said: Said, at: float) -> None:
        """Something went out."""
        fields = said.fields
        row = self.timeline.replies.get(fields.get("epoch", 0))
        if said.name == "ReplyText":
            self._phrase = str(fields.get("text", ""))
            if row is not None:
                row.bars[-1].label += self._phrase
        elif said.name == "ReplyAudio":
            self._sound(float(fields.get("duration_ms", 0.0)), at)
        elif row is not None and fields.get("code"):
            row.bars[-1].kind = "failed"
            row.bars[-1].detail = f"{fields['code']}: {fields.get('message', '')}"

    def stage(self, stages: Stages) -> None:
        """A reply has ended."""
        at = stages.began * 1000 - self._clock_ms
        replies = [row for row in self.timeline.replies.values() if row.bars[0].start <= at + 1]
        row = Row(replies[-1].name if replies else "reply")
        for kind, then in (
            ("model", stages.first_token),
            ("phrase", stages.first_phrase),
            ("voice", stages.first_audio),
        ):
            if then is None:
                break
            end = then * 1000 - self._clock_ms
            row.bars.append(Bar(at, end, kind, f"{end - at:.0f}"))
            at = end
        if row.bars:
            self.timeline.stages.append(row)

    def finish(self) -> Timeline:
        """The call is over, as far as is known."""
        timeline = self.timeline
        self._flush(timeline.end)
        for rows in (timeline.turns, timeline.takes, timeline.replies):
            for row in rows.values():
                row.end(timeline.end)
                row.bars = [bar for bar in row.bars if _is_seen(bar)] or row.bars[-1:]
        return timeline

    # --- the caller ---------------------------------------------------------------------

    def _hear(self, window: WindowHeard, at: float) -> None:
        times, probabilities, levels, echoes = self.timeline.windows
        times.append(round(at))
        probabilities.append(None if window.probability is None else round(window.probability, 3))
        levels.append(round(window.level_db, 1))
        echoes.append(round(window.echo, 2))

    def _open_turn(self, command: OpenTurn, at: float) -> None:
        row = self.timeline.turns[command.turn] = Row(f"turn {command.turn}")
        times = self.timeline.windows[0]
        first = command.at_ms // _WINDOW_MS
        row.begin(times[first] - _WINDOW_MS if first < len(times) else at, "preroll")
        row.begin(at, "tentative")

    def _confirm_turn(self, command: ConfirmTurn, at: float) -> None:
        row = self.timeline.turns.setdefault(command.turn, Row(f"turn {command.turn}"))
        row.begin(at, "speaking")

    def _commit_turn(self, command: CommitTurn, at: float) -> None:
        name = f"turn {command.turn}"
        row = self.timeline.turns.setdefault(command.turn, Row(name))
        row.begin(at, "transcribing").detail = f"after {command.quiet_ms} ms of silence"

    def _end_turn(self, turn: int, at: float, kind: str, label: str) -> None:
        row = self.timeline.turns.get(turn)
        if row is None or not row.bars:
            return
        row.end(at)
        if kind:
            row.bars[-1].kind = kind
        for bar in row.bars:
            bar.label = label

    def _transcribe(self, command: Transcribe, at: float) -> None:
        row = Row(f"take {command.take} of turn {command.turn}")
        self.timeline.takes[command.take] = row
        row.begin(at, command.purpose)

    def _end_take(self, take: int, at: float, kind: str, label: str, detail: str = "") -> None:
        row = self.timeline.takes.get(take)
        if row is None or row.bars[-1].end <= at:
            return
        row.end(at)
        bar = row.bars[-1]
        bar.kind, bar.label, bar.detail = kind or bar.kind, label, detail

    # --- the agent ----------------------------------------------------------------------

    def _begin_reply(self, epoch: int, at: float, kind: str, detail: str = "") -> None:
        row = self.timeline.replies.setdefault(epoch, Row(f"reply {epoch}"))
        row.begin(at, kind).detail = detail

    def _end_reply(self, epoch: int, at: float, kind: str, detail: str = "") -> None:
        row = self.timeline.replies.get(epoch)
        if row is None:
            return
        row.begin(at, kind).detail = detail
        row.end(at)

    def _pause_reply(self, command: PauseReply, at: float) -> None:
        self._begin_reply(command.epoch, at, "paused")
        self._flush(at)

    def _stop_reply(self, command: StopReply, at: float) -> None:
        self._end_reply(command.epoch, at, "stopped", command.reason)
        self._flush(at)

    def _finish_reply(self, event: ReplyEnded, at: float) -> None:
        row = self.timeline.replies.get(event.epoch)
        if row is not None and row.bars[-1].end > at:
            row.begin(at, "ending")
            row.end(at + event.lead_ms)

    def _sound(self, duration_ms: float, at: float) -> None:
        start = self._player.send(duration_ms, at)
        phrase, self._phrase = self._phrase, ""
        last = self.timeline.heard[-1] if self.timeline.heard else None
        if last is not None and not phrase and start - last.end < 1:
            last.end = start + duration_ms
        else:
            self.timeline.heard.append(Bar(start, start + duration_ms, "heard", phrase))

    def _flush(self, at: float) -> None:
        self._player.flush(at)
        heard = self.timeline.heard
        while heard and heard[-1].start >= at:
            heard.pop()
        if heard and heard[-1].end > at:
            heard[-1] = replace(heard[-1], end=at, kind="cut")


_DRAW: Final[dict[type, Callable[[_Weaver, Any, float], None]]] = {
    WindowHeard: _Weaver._hear,
    OpenTurn: _Weaver._open_turn,
    ConfirmTurn: _Weaver._confirm_turn,
    CommitTurn: _Weaver._commit_turn,
    DiscardTurn: lambda w, c, at: w._end_turn(c.turn, at, "discarded", ""),
    AcceptTranscript: lambda w, c, at: w._end_turn(c.turn, at, "", c.text),
    FailTranscript: lambda w, c, at: w._end_turn(c.turn, at, "failed", c.reason),
    Transcribe: _Weaver._transcribe,
    TranscriptArrived: lambda w, e, at: w._end_take(e.take, at, "", e.text, details_of(e)),
    TranscriptFailed: lambda w, e, at: w._end_take(e.take, at, "failed", e.reason),
    DropTake: lambda w, c, at: w._end_take(c.take, at, "dropped", ""),
    PrepareReply: lambda w, c, at: w._begin_reply(c.epoch, at, "held", f"answers “{c.text}”"),
    ReleaseReply: lambda w, c, at: w._begin_reply(c.epoch, at, "out"),
    StartReply: lambda w, c, at: w._begin_reply(c.epoch, at, "out"),
    SayLine: lambda w, c, at: w._begin_reply(c.epoch, at, "out", c.line),
    ResumeReply: lambda w, c, at: w._begin_reply(c.epoch, at, "out", "resumed"),
    PauseReply: _Weaver._pause_reply,
    DropReply: lambda w, c, at: w._end_reply(c.epoch, at, "dropped"),
    StopReply: _Weaver._stop_reply,
    SettingsChanged: lambda w, _e, at: w._mark(at, "settings changed"),
    ReplySounded: lambda _w, _e, _at: None,
    ReplyEnded: _Weaver._finish_reply,
}
"""What has a lane; all else is a mark."""
