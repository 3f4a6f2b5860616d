"""One leg of a phone call: a line, its codec, and the time at which audio goes out.

It knows no carrier by name, and nothing of the call: what it hears, it tells its ``ear``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from engines.audio import Pcm
from pipelines.conversation.dialogue import AgentItem
from voice.doors.phone_keypad import Keypad
from voice.doors.phone_pacer import Lead, Pacer
from voice.doors.phone_playout import BlockedError, Playout
from voice.tones import key_tones
from voice.wire.phone import (
    Answer,
    AudioCame,
    DigitPressed,
    FlowChanged,
    LegEnded,
    LegStarted,
    MarkPlayed,
    Message,
    PhoneCodec,
    PhoneEvent,
    PhoneWireError,
)

MOST_UNSENT: Final = 1024 * 1024
"""Bytes. Who reads so slowly does not listen."""

Find: TypeAlias = Callable[[Sequence[Message]], PhoneCodec | None]
"""The codec for a leg that begins with these messages; None until there are enough of them. Raises
PhoneWireError where there is none."""


class PhoneLine(Protocol):
    """Where a leg's messages go."""

    @property
    def heard_at(self) -> float: ...

    @property
    def is_writable(self) -> bool: ...

    @property
    def unsent(self) -> int: ...

    def write(self, message: Message) -> None: ...

    def abort(self) -> None: ...


class Ear(Protocol):
    """What a leg tells of its caller."""

    def heard(self, pcm: Pcm) -> None:
        """More audio."""

    def pressed(self, digit: str) -> None:
        """A key: one of 0-9, *, #, A-D."""

    def typed(self, digits: str) -> None:
        """All that was typed at a time."""


class Leg:
    """See the module. ``started`` is done once the carrier has said what this call is; ``ended``,
    with the reason, once nothing more can be said on it, or has the exception that ended it.
    ``send_ahead``: who keeps time itself is given all at once. ``tell_late`` is given how late each
    turn of sending was, in seconds."""

    def __init__(
        self,
        line: PhoneLine,
        find: Find,
        *,
        quiet_ms: float,
        lead: Lead | None = None,
        send_ahead: bool = False,
        tell_late: Callable[[float], None] = lambda _s: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.line = line
        self.ear: Ear | None = None
        self.codec: PhoneCodec | None = None
        self.started: asyncio.Future[LegStarted] = self._loop.create_future()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self.misbehaved = False
        self._find = find
        self._first: list[Message] = []
        self._lead = lead
        self._send_ahead = send_ahead
        self._tell_late = tell_late
        self._keypad = Keypad(quiet_ms)
        self._playout: Playout | None = None
        self._epoch = 0
        self._flow_open = True
        self._said_goodbye = False
        self._timer: asyncio.TimerHandle | None = None
        self._stirred = asyncio.Event()

    # --- what comes in ------------------------------------------------------------------

    def take(self, message: Message) -> None:
        """A message of the carrier's. Never raises."""
        if self.ended.done():
            return
        try:
            if self.codec is not None:
                self._decode(self.codec, message)
            else:
                self._begin(message)
        except PhoneWireError as error:
            self.misbehaved = True
            self.end(str(error))
        except Exception as bug:  # noqa: BLE001 - handed to the leg's own task, which raises it
            self.fail(bug)

    def end(self, reason: str) -> None:
        """Nothing more can be said."""
        if not self.ended.done():
            self.ended.set_result(reason)
        self._stirred.set()

    def fail(self, bug: Exception) -> None:
        """It cannot go on."""
        if not self.ended.done():
            self.ended.set_exception(bug)
        self._stirred.set()

    @property
    def log_level(self) -> int:
        """How much its end should be noticed."""
        return logging.WARNING if self.misbehaved else logging.INFO

    async def wait_begun(self, most_s: float) -> None:
        """Wait until it has started, or ended, but no longer than this."""
        either: list[asyncio.Future[Any]] = [self.started, self.ended]
        await asyncio.wait(either, timeout=most_s, return_when=asyncio.FIRST_COMPLETED)

    async def wait_ended(self, most_s: float | None = None) -> None:
        """Wait until it has ended. Who gives up waiting leaves it as it is."""
        await asyncio.wait([self.ended], timeout=most_s)

    def _begin(self, message: Message) -> None:
        self._first.append(message)
        self.codec = self._find(self._first)
        if self.codec is None:
            return
        first, self._first = self._first, []
        for each in first:
            self._decode(self.codec, each)

    def _decode(self, codec: PhoneCodec, message: Message) -> None:
        for event in codec.take(message):
            if self.ended.done():
                return
            self._happen(event, codec)

    def _happen(self, event: PhoneEvent, codec: PhoneCodec) -> None:
        match event:
            case AudioCame(pcm) if self.ear is not None:
                self.ear.heard(pcm)
            case LegStarted():
                self._start(event, codec)
            case DigitPressed(digit):
                self._press(digit)
            case LegEnded(reason):
                self.end(reason or "the carrier hung up")
            case _:
                self._follow(event)

    def _follow(self, event: PhoneEvent) -> None:
        """What the other side says of what it is sent."""
        match event:
            case MarkPlayed(name):
                self._played(name)
            case FlowChanged(is_open):
                self._flow_open = is_open
                self.pump()
            case Answer(messages):
                self._send(messages)

    def _start(self, event: LegStarted, codec: PhoneCodec) -> None:
        if self._playout is None:
            paced = codec.paced or not self._send_ahead
            pacer = Pacer(codec.rate, codec.frame_ms, self._lead, paced=paced)
            self._playout = Playout(pacer, marks=codec.marks)
            self.started.set_result(event)

    def _press(self, digit: str) -> None:
        self._keypad.press(digit, self._now())
        if self.ear is not None:
            self.ear.pressed(digit)
        self.pump()

    def _played(self, name: str) -> None:
        if self._playout is not None:
            self._playout.played(name, self._now())
            self._stirred.set()

    # --- what goes out ------------------------------------------------------------------

    def begin(self, epoch: int, item: AgentItem | None = None) -> None:
        """What is spoken from here on is this item's, of this reply."""
        self._epoch = epoch
        if self._playout is not None:
            self._playout.begin(epoch, item, self._now())

    def speak(self, pcm: Pcm) -> None:
        """More audio."""
        if self._playout is None:
            return
        try:
            self._playout.put(pcm)
        except BlockedError as error:
            self.misbehaved = True
            self.end(str(error))
        self.pump()

    def finish(self) -> None:
        """The reply has no more to say."""
        if self._playout is not None:
            self._playout.finish()
            self.pump()

    def press(self, digits: str) -> None:
        """Press keys for the other side: in the wire's own words, or else by their tones, which
        follow what is being said."""
        if self._playout is None or self.codec is None or self.ended.done():
            return
        words = self.codec.press(digits)
        self._send(words)
        if not words:
            self.begin(self._epoch)
            self.speak(key_tones(digits, self.codec.rate))
            self.finish()

    def stop(self) -> None:
        """Fall silent, here and at the other side, in one step."""
        if self._playout is None or self.codec is None or self.ended.done():
            return
        cleared = self.codec.clear()
        self._playout.stop(self._now(), flushed=bool(cleared))
        self._send(cleared)
        self.pump()

    def hang_up(self) -> bool:
        """Tell the other side that this is the end; False where there is no word for it, or nobody
        to hear it."""
        if self.codec is None or self.ended.done() or self._said_goodbye:
            return False
        self._said_goodbye = True
        words = self.codec.hang_up()
        self._send(words)
        return bool(words)

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self.ear = None
        self._playout = None

    async def play_out(self, until: float) -> None:
        """Wait until all has been heard, or until this time of the loop's, or until there is nobody
        to hear it."""
        while self._playout is not None and not self.ended.done():
            now = self._loop.time()
            left_s = min(until, self._playout.heard_at(now * 1000.0) / 1000.0) - now
            if left_s <= 0:
                return
            self._stirred.clear()
            await _wait(self._stirred, left_s)

    def pump(self) -> None:
        """Do what is due. Never raises."""
        try:
            self._pump()
        except Exception as bug:  # noqa: BLE001 - handed to the leg's own task, which raises it
            self.fail(bug)

    def _pump(self) -> None:
        if self.ended.done():
            return
        now = self._now()
        if self._playout is not None and self.codec is not None:
            self._playout.hold(not (self._flow_open and self.line.is_writable))
            for sent in self._playout.take(now):
                self._send(
                    self.codec.mark(sent)
                    if isinstance(sent, str)
                    else self.codec.speak(Pcm(sent, self.codec.rate))
                )
        if self.ear is not None and (digits := self._keypad.take(now)):
            self.ear.typed(digits)
        self._wake_in_time()

    def _send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.line.write(message)
        if messages and self.line.unsent > MOST_UNSENT:
            self.misbehaved = True
            self.end(f"{self.line.unsent} bytes wait for a carrier that reads none")

    # --- time ---------------------------------------------------------------------------

    def _now(self) -> float:
        return self._loop.time() * 1000.0

    def _deadline(self) -> float | None:
        """In milliseconds."""
        dues = [self._playout.deadline if self._playout is not None else None]
        if self.ear is not None:
            dues.append(self._keypad.deadline)
        return min((due for due in dues if due is not None), default=None)

    def _wake_in_time(self) -> None:
        due = self._deadline()
        if self._timer is not None:
            if due is not None and self._timer.when() * 1000.0 <= due + 0.001:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self._loop.call_at(due / 1000.0, self._wake, due)

    def _wake(self, due: float) -> None:
        self._timer = None
        self._tell_late(max(0.0, self._now() - due) / 1000.0)
        self.pump()


async def _wait(event: asyncio.Event, most_s: float) -> None:
    try:
        async with asyncio.timeout(most_s):
            await event.wait()
    except TimeoutError:
        return
