"""A call that came in by phone: what is heard goes in, what is said goes out, and how it ends."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from uuid import uuid4

import soxr

from engines.audio import Pcm
from engines.vad.ears import BacklogError
from pipelines.conversation.call import Call, open_call
from pipelines.conversation.dialogue import AgentItem, CallerItem, ToolCallItem
from pipelines.conversation.events import ReplyAudio, ReplyFinished, ReplyText, StopReason
from pipelines.conversation.ports import CallSettings
from voice.admission import Caller
from voice.doors.connection import first_of
from voice.doors.handshake import write_refusal
from voice.doors.phone_company import Company
from voice.doors.phone_facts import facts_of
from voice.doors.phone_keypad import typed_words
from voice.doors.phone_leg import Leg
from voice.doors.ration import RationedLlm
from voice.house import House
from voice.reception import CallerGoneError, RefusedError
from voice.tones import busy_tone, failure_tone
from voice.wire.phone import LegStarted
from voice.wire.realtime_session import Session

logger = logging.getLogger(__name__)

LAST_WORD_S: Final = 1.0
"""How long who was told that this is the end may take to close the line."""

RUNG: Final = "[the caller has just been put through]"
"""What a model that greets is told: many want something of a user to answer."""


class PhoneCall:
    """Tells a leg what its call says, and the call what the leg hears; implements
    ``pipelines.conversation.ports.Door`` and ``voice.doors.phone_leg.Ear``. ``over``: the agent
    hangs up; ``ended``: nothing is left of the call. ``session``: what a client that has joined it
    has made of it."""

    def __init__(
        self,
        leg: Leg,
        new_id: Callable[[], str],
        ration: RationedLlm,
        *,
        digits_interrupt: bool,
    ) -> None:
        self.call: Call | None = None
        self.over = asyncio.Event()
        self.ended = asyncio.Event()
        self.company = Company(self)
        self.session: Session | None = None
        self.ration = ration
        self._leg = leg
        self._new_id = new_id
        self._digits_interrupt = digits_interrupt
        self._epoch = 0
        self._rate = 0
        self._fitted: soxr.ResampleStream | None = None

    def open(self, call: Call, rate: int) -> None:
        """The call is there; it hears audio of this rate."""
        self.call, self._rate = call, rate
        self._leg.ear = self

    def greet(self, words: str, *, by_model: bool) -> None:
        """Speak first: these words, or what the model says; nothing where there is neither."""
        assert self.call is not None, "the call is open"
        if by_model:
            self._say(RUNG)
        elif words:
            self.call.request_reply(replace(self.call.settings, words=words))

    # --- what the leg hears -------------------------------------------------------------

    def heard(self, pcm: Pcm) -> None:
        if self.call is None:
            return
        pcm = self._fit(pcm)
        if pcm.rate != self._rate:
            self._rate = pcm.rate
            self.call.set_rate(pcm.rate)
        try:
            self.call.hear(pcm.samples)
        except BacklogError as error:
            self._leg.misbehaved = True
            self._leg.end(str(error))

    def _fit(self, pcm: Pcm) -> Pcm:
        """At a rate that calls can hear; whoever changes to another one does so once."""
        rate = heard_rate(pcm.rate)
        if rate == pcm.rate:
            return pcm
        if self._fitted is None:
            self._fitted = soxr.ResampleStream(pcm.rate, rate, 1, dtype="int16", quality="MQ")
        return Pcm(self._fitted.resample_chunk(pcm.samples), rate)

    def pressed(self, digit: str) -> None:
        self.company.key_pressed(digit)
        self._hush()

    def typed(self, digits: str) -> None:
        self._hush()  # a reply that has begun since the last key answers something else
        self._say(typed_words(digits))

    def _hush(self) -> None:
        if self.call is not None and self._digits_interrupt:
            self.call.cancel_reply(sounding=True)

    def _say(self, text: str) -> None:
        """Answered like a message that is typed."""
        if self.call is not None:
            item = CallerItem(self._new_id(), text)
            self.company.item_added(item, self.call.dialogue.append(item))
            self.call.request_reply()

    # --- what the call says -------------------------------------------------------------

    def reply_started(self, epoch: int) -> None:
        if epoch != self._epoch:  # what goes on was counted before
            self._epoch = epoch
            self.ration.begin_reply()

    def reply_began_item(self, item: AgentItem, previous_id: str | None) -> None:  # noqa: ARG002
        self._leg.begin(self._epoch, item)

    def reply_said(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:  # noqa: ARG002
        if isinstance(output, ReplyAudio):
            self._leg.speak(output.pcm)

    def reply_finished(self, output: ReplyFinished, item: AgentItem | None) -> None:  # noqa: ARG002
        self._leg.finish()

    def reply_stopped(self, epoch: int, reason: StopReason, item: AgentItem | None) -> None:  # noqa: ARG002
        self._leg.stop()

    def send_digits(self, digits: str) -> None:
        self._leg.press(digits)

    def speechless(self) -> None:
        assert self._leg.codec is not None, "the leg has started"
        self._leg.begin(self._epoch)
        self._leg.speak(failure_tone(self._leg.codec.rate))
        self._leg.finish()

    def hung_up(self) -> None:
        self.over.set()

    # --- what a telephone is not told ---------------------------------------------------

    def turn_opened(self, item_id: str, at_ms: int) -> None: ...

    def turn_committed(self, item: CallerItem, at_ms: int, previous_id: str | None) -> None: ...

    def words_shown(self, item_id: str, text: str) -> None: ...

    def transcript_ready(self, item: CallerItem, audio_ms: int, suspicion: str) -> None: ...

    def transcript_failed(self, item: CallerItem, reason: str) -> None: ...

    def reply_called(self, item: ToolCallItem, previous_id: str | None) -> None: ...

    def caller_idle(self, since_ms: int, at_ms: int) -> None: ...


def heard_rate(rate: int) -> int:
    """At which rate a call hears audio of this rate: ears convert all but 44.1 kHz and its like."""
    return 16_000 if rate % 500 else rate


async def serve_leg(
    house: House, leg: Leg, caller: Caller, headers: Mapping[str, str], *, record: bool = False
) -> None:
    """A leg that has started, from there until its line may be closed: it is let in and talked to,
    or hears that there is no room. Raises what a bug has raised. Of an end that has a word on its
    wire, the other side makes the end of the line."""
    told = False
    sessions, now = house.rates.of(caller).sessions, asyncio.get_running_loop().time()
    try:
        if not house.ready:
            await _turn_away(house, leg, caller.tenant, "not_ready")
        elif sessions is not None and sessions.wait_s(now):
            await _turn_away(house, leg, caller.tenant, "rate_limit_exceeded")
        else:
            async with house.reception.admit(caller, leg.line, leg.wait_ended):
                if sessions is not None:
                    sessions.spend(1, asyncio.get_running_loop().time())
                await _talk(house, leg, caller, headers, record=record)
    except RefusedError as refused:
        await _turn_away(house, leg, caller.tenant, refused.refusal.reason.value)
    except CallerGoneError:
        house.metrics.calls_opened.labels("gone").inc()
    finally:
        told = leg.hang_up()
    if told:
        await leg.wait_ended(LAST_WORD_S)


async def _talk(
    house: House, leg: Leg, caller: Caller, headers: Mapping[str, str], *, record: bool
) -> None:
    started, config = leg.started.result(), house.config.phone
    settings = _settings(house, started)
    rate = heard_rate(started.rate)
    name, numbers = f"phone_{uuid4().hex[:12]}", itertools.count(1)
    loop = asyncio.get_running_loop()

    def new_id() -> str:
        return f"{name}_{next(numbers):04d}"

    _tell(leg, started, name)
    ration = RationedLlm(house.engines.llm, house.rates.of(caller).requests)
    door = PhoneCall(leg, new_id, ration, digits_interrupt=config.digits_interrupt)
    record = house.records.can_record and (record or started.parameters.get("record") == "1")
    with (
        house.records.keep(name, rate, settings.turns, record=record) as kept,
        house.watched(name, caller.tenant, headers) as watching,
    ):
        async with open_call(
            replace(house.engines, llm=ration),
            settings,
            door.company,
            rate=rate,
            new_id=new_id,
            call_id=name,
            observers=(*watching, *kept.observers),
            recorder=kept.recorder,
        ) as call:
            door.open(call, rate)
            with house.knows(call), _listed(house, door, caller.tenant, (name, started.call)):
                door.greet(config.greeting, by_model=config.model_greets)
                await first_of(leg.wait_ended(), door.over.wait())
                if leg.ended.done():
                    leg.ended.result()  # raises the bug that has ended it
                await leg.play_out(loop.time() + config.drain_s)
    logger.log(leg.log_level, "%s is over: %s", name, _reason(leg))


@contextmanager
def _listed(house: House, door: PhoneCall, tenant: str, names: Iterable[str]) -> Iterator[None]:
    """Clients of this tenant's may join the call for as long as the context lasts."""
    keys = [(tenant, name) for name in names if name]
    house.phone_calls |= dict.fromkeys(keys, door)
    try:
        yield
    finally:
        for key in keys:
            if house.phone_calls.get(key) is door:  # a carrier may give a name twice
                del house.phone_calls[key]
        door.ended.set()


async def _turn_away(house: House, leg: Leg, tenant: str, reason: str) -> None:
    """The call is answered already: the busy tone says that there is none."""
    assert leg.codec is not None, "the leg has started"
    write_refusal(house, "phone call", tenant, reason)
    house.metrics.calls_opened.labels("refused").inc()
    house.metrics.refusals.labels(reason, tenant).inc()
    tone = busy_tone(leg.codec.rate)
    leg.begin(0)
    leg.speak(tone)
    leg.finish()
    drain_s = tone.duration_ms / 1000 + house.config.phone.drain_s
    await leg.play_out(asyncio.get_running_loop().time() + drain_s)


def _settings(house: House, started: LegStarted) -> CallSettings:
    """How this call behaves: who cannot be shown that something is wrong is told so."""
    settings = house.call_settings
    facts = facts_of(started) if house.config.phone.tell_caller else ""
    return replace(
        settings,
        instructions="\n\n".join(filter(None, (settings.instructions, facts))),
        own_tools=house.config.agent.tools,
        turns=replace(settings.turns, apologise=True),
        apology=house.config.phone.apology,
    )


def _tell(leg: Leg, started: LegStarted, name: str) -> None:
    wire = leg.codec.name if leg.codec is not None else ""
    logger.info("%s has come in over %s, which calls it %r", name, wire, started.call[:100])


def _reason(leg: Leg) -> str:
    return leg.ended.result() if leg.ended.done() else "we hung up"
