"""One caller: what it sends every 20 ms, and what it makes of what comes back.

No I/O and no clock: a line asks for a frame when one is due, and hands over what it has read.
A frame that is due at t holds what was spoken in the 20 ms before t.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.clips import Clip
from loadtest.habits import Character, Habits, Intent
from loadtest.listening import Reply, VirtualPlayer
from loadtest.records import Outcome, TurnRecord
from loadtest.turn import FRAME_S, Turn
from loadtest.wires import Wire

_MOST_ERRORS: Final = 5
_LOOK_S: Final = 0.08
"""Between two looks at what is going on: at every frame it would cost more than the frame."""

_LONG_S: Final = 4.0
"""Less than turns are waited for at the end of a run."""

_FIRST_THINK_S: Final = 0.3
"""A caller says nothing before the line has stood for a moment."""


@dataclass(frozen=True, slots=True)
class Repertoire:
    """All that can be said over a wire; shared by all callers. ``murmurs``: backchannels."""

    wire: Wire
    clips: Sequence[Clip]
    silence: bytes
    murmurs: Sequence[Clip] = ()


class Talker:
    """The caller's side of one call; an ``Ear`` of its wire.

    ``send``: for what is said beside audio. ``tell``: each turn that is over. ``start``: second 0
    of the run. ``until``: no turn begins after it.
    """

    def __init__(
        self,
        number: int,
        repertoire: Repertoire,
        habits: Habits,
        character: Character,
        *,
        start: float,
        until: float,
        silent: bool = False,
    ) -> None:
        self.number = number
        self.send: Callable[[bytes], None] = lambda _message: None
        self.tell: Callable[[TurnRecord], None] = lambda _record: None
        self.on_ready: Callable[[], None] = lambda: None
        self.is_ready = False
        self.errors: list[str] = []
        self.phantoms = 0
        self.player = VirtualPlayer()
        self._repertoire = repertoire
        self._wire = repertoire.wire
        self._habits = habits
        self._character = character
        self._start = start
        self._until = until
        self._silent = silent
        self._silence = repertoire.silence
        self._frames: Sequence[bytes] = ()
        self._at = 0
        self._leave_at = -1
        self._look_at = 0.0
        self._turn: Turn | None = None
        self._next: Intent | None = None
        self._begin_at = 0.0
        self._replies: dict[bytes, Reply] = {}
        self._reply: Reply | None = None
        self._items: dict[bytes, Turn | None] = {}
        self._marks: deque[tuple[float, bytes]] = deque()

    # --- the microphone -----------------------------------------------------------------

    @property
    def talking(self) -> bool:
        """Whether a clip is being said."""
        return self._at < len(self._frames)

    @property
    def idle(self) -> bool:
        """Whether no turn is open."""
        return self._turn is None

    def frame(self, due: float) -> bytes | None:
        """The frame that is due; None where the caller hangs up instead."""
        if due >= self._look_at:
            self._look_at = due + _LOOK_S
            self._look(due)
        if self._at == self._leave_at and self._turn is not None:
            self._close(self._turn, due, "hung_up")
            return None
        if self._at < len(self._frames):
            self._at += 1
            return self._frames[self._at - 1]
        return self._silence

    def stop(self, now: float) -> None:
        """The call ends, whatever goes on. A turn that has waited for long was not answered."""
        if (turn := self._turn) is not None:
            waited = turn.given_up(now, self.player, min(self._habits.patience_s, _LONG_S))
            self._close(turn, now, "unanswered" if waited else "unfinished")

    def _look(self, now: float) -> None:
        """See what has become of the turn, and whether to say something."""
        if self._marks:
            self._return_marks(now)
        if self._silent:
            return
        if self._turn is not None and self._turn.barging:
            self._turn.watch_barge_in(now, self.player)
        if not self.talking:
            self._decide(now)

    def _decide(self, now: float) -> None:
        turn = self._turn
        if turn is None:
            if self._next is None:
                self._next = self._character.next()
                self._begin_at = max(now + self._next.think_ms / 1000, now + _FIRST_THINK_S)
            elif self._begin_at <= now < self._until:
                self._begin(now)
        elif turn.over(now, self.player):
            early = turn.answered_by is None
            self._close(turn, now, "early" if early else "answered")
        elif turn.given_up(now, self.player, self._habits.patience_s):
            self._close(turn, now, "failed" if turn.trouble else "unanswered")
        else:
            self._break_in(turn, now)

    def _begin(self, now: float, *, barging: bool = False) -> None:
        intent = self._next or self._character.next()
        clip = self._repertoire.clips[intent.clip]
        turn = Turn(clip, intent, now, self._silence, barging=barging)
        self._turn, self._next = turn, None
        self._frames, self._at = turn.frames, 0
        self._leave_at = -1
        if intent.hang_up is not None:
            self._leave_at = max(1, int(len(turn.frames) * intent.hang_up))

    def _break_in(self, turn: Turn, now: float) -> None:
        """Say something into the reply, where that is meant and enough of it was heard."""
        then, reply = turn.intent.then, self._reply
        if then == "listen" or reply is None or reply is not turn.answered_by:
            return
        if not self.player.playing(now) or reply.cut:
            return
        if self.player.heard_s(now) * 1000 < turn.intent.into_reply_ms:
            return
        if then == "barge_in" and now < self._until:
            turn.broken_into = True
            self._close(turn, now, "answered")
            self._begin(now, barging=True)
        elif then == "backchannel" and turn.murmured_at is None and self._repertoire.murmurs:
            murmurs = self._repertoire.murmurs
            turn.murmured_at = now
            self._frames, self._at = murmurs[self.number % len(murmurs)].frames, 0

    def _close(self, turn: Turn, now: float, outcome: Outcome) -> None:
        self._turn = None
        self._frames, self._at, self._leave_at = (), 0, -1
        for name in [name for name, reply in self._replies.items() if reply.status]:
            del self._replies[name]
        self.tell(turn.record(self.number, self._start, now, outcome))

    # --- the ear ------------------------------------------------------------------------

    def ready(self, now: float) -> None:  # noqa: ARG002
        self.is_ready = True
        self.on_ready()

    def audio(self, now: float, reply: bytes, item: bytes, encoded: bytes) -> None:
        known = self._replies.get(reply) or self._new_reply(reply)
        wire = self._wire
        samples = wire.samples_in(encoded)
        known.item = item
        known.sound(now, samples, wire.rate, lambda: wire.decode(encoded))
        self.player.put(now, known, samples / wire.rate)
        self._reply = known
        if known.cut and self._turn is not None:
            self._turn.sound(known)

    def words(self, now: float, reply: bytes, text: str) -> None:  # noqa: ARG002
        (self._replies.get(reply) or self._new_reply(reply)).say(text)

    def speech_started(self, now: float, item: bytes) -> None:
        turn = self._turn
        mine = turn is not None and (now <= turn.clip_end or not self._murmuring(turn, now))
        self._items[item] = turn if mine else None
        self.cleared(now)

    def cleared(self, now: float) -> None:
        heard_ms = round(self.player.heard_s(now) * 1000)
        cut = self.player.fall_silent(now)
        self._return_marks(now)
        if cut is None:
            return
        if self._turn is not None:
            self._turn.interrupt(now, cut)
        if (message := self._wire.cut(cut.item, heard_ms)) is not None:
            self.send(message)

    def committed(self, now: float, item: bytes) -> None:
        turn = self._items.setdefault(item, self._turn)
        if turn is not None:
            turn.own(item)
            turn.commit(now)

    def transcript(self, now: float, item: bytes, text: str) -> None:  # noqa: ARG002
        turn = self._items.pop(item, self._turn)
        if turn is not None:
            turn.hear(item, text)

    def reply_started(self, now: float, reply: bytes) -> None:  # noqa: ARG002
        self._new_reply(reply)

    def reply_done(self, now: float, reply: bytes, status: str) -> None:  # noqa: ARG002
        known = self._replies.get(reply)
        if known is not None:
            known.status = status or "completed"
        if status == "failed" and self._turn is not None:
            self._turn.trouble = "the reply failed"

    def mark(self, now: float, name: bytes) -> None:  # noqa: ARG002
        self._marks.append((self.player.end, name))

    def _return_marks(self, now: float) -> None:
        while self._marks and min(self._marks[0][0], self.player.end) <= now:
            _, name = self._marks.popleft()
            if (message := self._wire.played(name)) is not None:
                self.send(message)

    def failed(self, now: float, message: str) -> None:  # noqa: ARG002
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(message)

    def _new_reply(self, name: bytes) -> Reply:
        reply = self._replies[name] = Reply(name)
        if self._turn is not None:
            self._turn.answer(reply)
        self.phantoms += self._silent
        return reply

    def _murmuring(self, turn: Turn, now: float) -> bool:
        began = turn.murmured_at
        return began is not None and now >= began - FRAME_S
