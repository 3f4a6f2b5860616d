"""The account of one turn: what was said, what came of it, and when. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loadtest.clips import Clip
from loadtest.habits import Intent
from loadtest.listening import Reply, VirtualPlayer
from loadtest.records import Barge, Outcome, TurnRecord
from loadtest.wires import FRAME_MS

FRAME_S: Final = FRAME_MS / 1000
MISSED_S: Final = 2.0
"""A reply that still sounds so long after a barge-in's first sound has missed it."""

SETTLED_S: Final = 1.5
"""So long after a clip's end the server has found every end of it that it will find."""

_EARLY_S: Final = 0.3
"""A VAD may let go before the last soft sound of a clip."""


class Turn:
    """One turn. ``began`` is when its first sample is spoken; ``barging`` the player whose reply
    it breaks into."""

    def __init__(
        self, clip: Clip, intent: Intent, began: float, silence: bytes, *, barging: bool = False
    ) -> None:
        self.clip = clip
        self.intent = intent
        self.began = began
        self.barging = barging
        self.frames = _frames(clip, intent, silence)
        pause_s = (len(self.frames) - len(clip.frames)) * FRAME_S
        self.first_sound = began + clip.first_sound_s
        self.speech_end = began + clip.speech_end_s
        if clip.speech_end_s > clip.gap * FRAME_S:
            self.speech_end += pause_s
        self.clip_end = began + len(self.frames) * FRAME_S
        self.silent_at: float | None = None
        self.missed = False
        self.murmured_at: float | None = None
        self.broken_into = False
        self.false_stops = 0
        self.trouble = ""
        self._cuts = 0
        self._committed_at: float | None = None
        self._replies: list[Reply] = []
        self._words: dict[bytes, str] = {}

    # --- what happens -------------------------------------------------------------------

    def own(self, item: bytes) -> None:
        """The server's name for what it hears of this turn."""
        self._words.setdefault(item, "")

    def commit(self, now: float) -> None:
        """The server takes what it has heard for a turn."""
        self._committed_at = now
        self._cuts += now < self.speech_end

    def hear(self, item: bytes, text: str) -> None:
        """What the server understood."""
        self._words[item] = text

    def answer(self, reply: Reply) -> None:
        """A reply has begun. One that is resumed is another piece of the same."""
        self._replies.append(reply)

    def interrupt(self, now: float, reply: Reply) -> None:
        """The caller's player fell silent while ``reply`` sounded."""
        mine = any(reply is other for other in self._replies)
        if self.barging and not mine:
            self.silent_at = now
        elif now > self.speech_end + _EARLY_S:
            self.false_stops += 1

    def sound(self, reply: Reply) -> None:
        """Audio came. Of a reply that had fallen silent before the barge-in: it has not."""
        if self.barging and reply.cut and not any(reply is other for other in self._replies):
            self.silent_at = None

    # --- what has become of it ----------------------------------------------------------

    @property
    def answered_by(self) -> Reply | None:
        """The first reply that sounded after the caller had finished."""
        for reply in self._replies:
            if reply.first_at is not None and reply.first_at >= self.speech_end:
                return reply
        return None

    def over(self, now: float, player: VirtualPlayer) -> bool:
        """Whether nothing more will come of it: its reply is heard out."""
        if now < self.clip_end or player.playing(now) or not self._replies:
            return False
        if not all(reply.status for reply in self._replies):
            return False
        if not any(reply.arrivals for reply in self._replies):
            return False
        ended = self._committed_at is not None and self._committed_at >= self.speech_end - _EARLY_S
        return ended or now >= self.clip_end + SETTLED_S

    def given_up(self, now: float, player: VirtualPlayer, patience_s: float) -> bool:
        """Whether the caller has waited for too long."""
        last = max((reply.arrivals[-1][0] for reply in self._replies if reply.arrivals), default=0)
        patience_s = SETTLED_S if self.trouble else patience_s
        return now > max(self.clip_end, player.end, last) + patience_s

    def watch_barge_in(self, now: float, player: VirtualPlayer) -> None:
        """Called every frame: whether the reply should have stopped by now."""
        late = now >= self.first_sound + MISSED_S
        if self.barging and late and self.silent_at is None and not self.missed:
            old = not any(reply.arrivals for reply in self._replies)
            self.missed = old and player.playing(now)

    def record(self, call: int, start: float, now: float, outcome: Outcome) -> TurnRecord:
        """All of it, with times from ``start``, the second 0 of the run."""
        reply = self.answered_by
        if reply is not None and outcome in ("unanswered", "unfinished"):
            outcome = "answered"  # the end of it may still be on its way
        elif outcome == "unanswered" and any(r.arrivals for r in self._replies):
            outcome = "early"
        record = TurnRecord(
            call=call,
            at_s=round(self.began - start, 3),
            clip=self.clip.name,
            outcome=outcome,
            commit_ms=self._after(self._committed_at),
            waited_ms=round(max(0.0, now - self.speech_end) * 1000, 1),
            barge=self._barge(),
            stop_ms=_ms(self.silent_at, self.first_sound) if self.barging else None,
            backchannel=self.murmured_at is not None,
            false_stops=self.false_stops,
            cuts=self._cuts,
            said=self.clip.words,
            heard=" ".join(filter(None, self._words.values())),
            paused=self.intent.pause_ms > 0,
        )
        for each in self._replies:
            record.underruns += each.underruns
            record.underrun_ms += round(each.underrun_s * 1000, 1)
            record.audio_ms += round(each.seconds * 1000, 1)
            record.gaps_ms += [round(gap * 1000, 1) for gap in each.gaps_s()]
        if reply is not None and outcome == "answered":
            record.first_audio_ms = self._after(reply.first_at)
            record.onset_ms = self._after(reply.onset_at)
            record.sentence_ms = self._sentence_ms(reply)
        return record

    def _sentence_ms(self, reply: Reply) -> float | None:
        """None where nobody knows, and of a reply that was broken into: the slow ones would be
        missing there, and the quick ones not."""
        whole = reply.status in ("completed", "incomplete") or reply.sentence_complete
        return self._after(reply.sentence_at()) if whole and not self.broken_into else None

    def _after(self, at: float | None) -> float | None:
        return _ms(at, self.speech_end)

    def _barge(self) -> Barge | None:
        if not self.barging:
            return None
        if self.missed:
            return "missed"
        return "moot" if self.silent_at is None else "stopped"


def _ms(at: float | None, since: float) -> float | None:
    return None if at is None else round((at - since) * 1000, 1)


def _frames(clip: Clip, intent: Intent, silence: bytes) -> Sequence[bytes]:
    if not intent.pause_ms:
        return clip.frames
    pause = [silence] * round(intent.pause_ms / FRAME_MS)
    return [*clip.frames[: clip.gap], *pause, *clip.frames[clip.gap :]]
