"""Who gets in: a lease for each call, a bounded room to wait in, and shares that are kept.

A plain object: what happened goes in with the time, decisions come out. Times are seconds of any
clock that never falls. Its promises, each an invariant of ``tests/voice/test_admission.py``:

- a call holds one slot of every engine or none, and never are more leased than there are, unless
  slots were lost while calls were open;
- a lease ends once: given back, or expired since nothing was heard from its caller;
- what is kept for a tenant or for phones is taken by nobody else;
- who waits is let in in the order of coming, unless only a later one may take what is free; who
  comes overtakes nobody;
- file jobs hold what no call wants, and lose it as soon as one does.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from pipelines.strain import Strain
from voice.wire.realtime_session import Session

DEFAULT_TENANT: Final = "default"
"""Who comes with a key of ``server.api_keys``, or where there are no keys."""

MOST_RETRY_S: Final = 60
_RETRY_S: Final = 5
"""Told to callers where no call has shown yet how long calls last."""
_PHONE: Final = "phone"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How many are served at once. ``max_calls`` bounds all calls; ``asr``, ``llm`` and ``tts``
    are the calls that an engine can hold, where 0 is no bound for what has a queue, and for the
    voice as many as it has slots. ``phone_share``: the part of the calls that is kept for phones.
    ``waiting``: places for callers who wait, each for ``wait_s`` at most. A call whose client has
    sent nothing for ``lost_s``, not even the answer to a ping, has lost it."""

    max_calls: Annotated[int, Meta(ge=1)] = 256
    asr: Annotated[int, Meta(ge=0)] = 0
    llm: Annotated[int, Meta(ge=0)] = 0
    tts: Annotated[int, Meta(ge=0)] = 0
    phone_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    waiting: Annotated[int, Meta(ge=0)] = 0
    wait_s: Annotated[float, Meta(gt=0, le=3_600)] = 20.0
    lost_s: Annotated[float, Meta(ge=3, le=3_600)] = 30.0


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """Some of those who use the server, known by their ``keys``. ``share``: the part of the calls
    that is kept for them; ``max_calls``: what they may have at once, 0 for as many as there are.
    With each key they may begin ``sessions_per_minute``, and ask for ``requests_per_minute``:
    replies and the requests of the REST doors; 0 for as many as they like."""

    keys: tuple[str, ...] = field(default=(), repr=False)
    share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    max_calls: Annotated[int, Meta(ge=0)] = 0
    sessions_per_minute: Annotated[int, Meta(ge=0)] = 0
    requests_per_minute: Annotated[int, Meta(ge=0)] = 0


class Reason(StrEnum):
    """Why a caller is refused, in words for programs."""

    SERVER_FULL = "server_full"
    SHARE_FULL = "share_full"
    """What is free is kept for others."""
    TENANT_FULL = "tenant_full"
    """The tenant has all the calls that it may have at once."""
    WAITED = "waited_too_long"
    SETTLING = "settling"
    """It has as much as it can bear, or sees first whether it does."""
    OVERLOADED = "overloaded"
    CLOSING = "shutting_down"


_LASTING: Final = (Reason.OVERLOADED, Reason.CLOSING)


@dataclass(frozen=True, slots=True)
class Room:
    """What the house can hold now: calls, and calls by engine where an engine has a bound.
    ``bearable``: calls, by how it bears those that it has."""

    calls: int
    engines: Mapping[str, int] = field(default_factory=dict)
    strain: Strain = Strain.NONE
    closing: bool = False
    bearable: float = math.inf

    @property
    def most(self) -> int:
        """Calls at once."""
        return min([self.calls, *self.engines.values()])


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for a call. ``key``: which of the tenant's keys they came with, counted from 1;
    ``session``: what a key that was made for one session begins it with."""

    tenant: str = DEFAULT_TENANT
    phone: bool = False
    key: str = field(default="", compare=False)
    session: Session | None = field(default=None, compare=False, repr=False)


@dataclass(eq=False, slots=True)
class Lease:
    """A call's slots, one of every engine. ``beaten_at``: when its caller last gave a sign."""

    caller: Caller
    began_at: float
    beaten_at: float


@dataclass(frozen=True, eq=False, slots=True)
class FileLease:
    """The slots of a job that nobody listens to."""

    engines: frozenset[str]


@dataclass(frozen=True, eq=False, slots=True)
class Ticket:
    """A place in the waiting room."""

    caller: Caller
    deadline: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """Not now. ``position``: the caller's place among those who wait for a call, from 1 on, 0
    where it is no matter of waiting; ``retry_s``: when to try again, by how long calls last."""

    reason: Reason
    position: int
    retry_s: int


class Admission:
    """The leases of one house. Who looks at ``settle``'s answers may let callers wait."""

    def __init__(
        self, settings: AdmissionSettings, tenants: Mapping[str, TenantSettings], room: Room
    ) -> None:
        self._settings = settings
        self._tenants = tenants
        self._leases: dict[Lease, None] = {}
        self._files: dict[FileLease, None] = {}
        self._displaced: list[FileLease] = []
        self._waiting: dict[Ticket, None] = {}
        self._used: Counter[str] = Counter()
        self._call_s = 0.0
        self.room = room

    # --- what there is --------------------------------------------------------------------

    @property
    def room(self) -> Room:
        """What the house can hold; set it whenever it may have changed, before anything else."""
        return self._room

    @room.setter
    def room(self, room: Room) -> None:
        self._room = room
        self._kept = {
            group: slots
            for group, share, cap in self._shares()
            if (slots := min(int(share * room.most + 1e-9), cap or room.most))
        }

    @property
    def calls(self) -> int:
        """Leases that are held."""
        return len(self._leases)

    @property
    def waiting(self) -> int:
        """Callers in the waiting room."""
        return len(self._waiting)

    @property
    def kept(self) -> Mapping[str, int]:
        """Calls that are kept, by whom they are kept for: ``phone``, ``tenant NAME``."""
        return self._kept

    def used(self, tenant: str) -> int:
        """Calls that a tenant has."""
        return self._used[_group(tenant)]

    def by_tenant(self) -> Mapping[str, int]:
        """Calls of everyone who is known by name."""
        return {name: self.used(name) for name in (*self._tenants, DEFAULT_TENANT)}

    def slots(self) -> Iterator[tuple[str, int, int]]:
        """Name, number and leased ones of all slots that are counted: ``calls``, and engines."""
        yield "calls", self._room.most, self.calls
        for engine, number in self._room.engines.items():
            yield engine, number, self.calls + self._files_of(engine)

    # --- calls ----------------------------------------------------------------------------

    def refuses(self, caller: Caller) -> Refusal | None:
        """What a caller would be told who asks now; None where there is a lease or a place to
        wait. Changes nothing."""
        reason = self._fault(caller)
        if (reason is None and not self._overtakes()) or self._may_wait(reason):
            return None
        return self._refusal(reason or Reason.SERVER_FULL, self.waiting + 1)

    def ask(self, caller: Caller, now: float) -> Lease | Ticket | Refusal:
        """A lease, where it may be had at once; else a place to wait; else a refusal."""
        if refusal := self.refuses(caller):
            return refusal
        if self._fault(caller) is None and not self._overtakes():
            return self._lease(caller, now)
        ticket = Ticket(caller, now + self._settings.wait_s)
        self._waiting[ticket] = None
        return ticket

    def settle(self, now: float) -> list[tuple[Ticket, Lease | Refusal]]:
        """What has become of those who waited: call it after anything that may have changed it,
        and when a ticket's time is up."""
        self._displace()
        settled: list[tuple[Ticket, Lease | Refusal]] = []
        position = 0
        for ticket in list(self._waiting):
            position += 1
            reason = self._fault(ticket.caller)
            if reason is None:
                settled.append((ticket, self._lease(ticket.caller, now)))
            elif reason is Reason.CLOSING or now >= ticket.deadline:
                told = reason if reason is Reason.CLOSING else Reason.WAITED
                settled.append((ticket, self._refusal(told, position)))
            else:
                continue
            position -= 1
            del self._waiting[ticket]
        return settled

    def withdraw(self, ticket: Ticket) -> None:
        """The caller does not wait any more; of no effect on a ticket that is settled."""
        self._waiting.pop(ticket, None)

    def beat(self, lease: Lease, heard_at: float) -> None:
        """The caller gave a sign at this time."""
        lease.beaten_at = max(lease.beaten_at, heard_at)

    def expire(self, now: float) -> list[Lease]:
        """Take back the leases whose callers have given no sign for too long: end their calls."""
        oldest = now - self._settings.lost_s
        lost = [lease for lease in self._leases if lease.beaten_at <= oldest]
        for lease in lost:
            self.give_back(lease, now)
        return lost

    def give_back(self, lease: Lease, now: float) -> bool:
        """The call is over. False where the lease had ended before."""
        if lease not in self._leases:
            return False
        del self._leases[lease]
        self._used.subtract(_groups(lease.caller))
        lasted_s = now - lease.began_at
        self._call_s += (lasted_s - self._call_s) / 8 if self._call_s else lasted_s
        return True

    # --- files ----------------------------------------------------------------------------

    def ask_for_file(self, engines: Iterable[str]) -> FileLease | Refusal:
        """One slot of each of these engines, until a call wants it; see ``take_displaced``."""
        lease = FileLease(frozenset(engines))
        if self._room.closing or self._room.strain >= Strain.NO_FILES:
            reason = Reason.CLOSING if self._room.closing else Reason.OVERLOADED
            return self._refusal(reason)
        if any(self._free(engine) <= 0 for engine in lease.engines):
            return self._refusal(Reason.SERVER_FULL)
        self._files[lease] = None
        return lease

    def give_back_file(self, lease: FileLease) -> bool:
        """The job is over. False where the lease had ended before."""
        if lease not in self._files:
            return False
        del self._files[lease]
        return True

    def take_displaced(self) -> list[FileLease]:
        """Those that have lost their slots since this was last asked: stop their jobs."""
        displaced, self._displaced = self._displaced, []
        return displaced

    # --- within ---------------------------------------------------------------------------

    def _fault(self, caller: Caller) -> Reason | None:
        """What keeps a caller out now."""
        if self._room.closing:
            return Reason.CLOSING
        if self._room.strain >= Strain.NO_CALLS:
            return Reason.OVERLOADED
        if self.calls + 1 > self._room.bearable:
            return Reason.SETTLING
        tenant = self._tenants.get(caller.tenant)
        if tenant and tenant.max_calls and self.used(caller.tenant) >= tenant.max_calls:
            return Reason.TENANT_FULL
        free = self._room.most - self.calls
        if free <= 0:
            return Reason.SERVER_FULL
        unmet = {group: kept - self._used[group] for group, kept in self._kept.items()}
        if any(unmet.get(group, 0) > 0 for group in _groups(caller)):
            return None
        return None if free > sum(max(0, more) for more in unmet.values()) else Reason.SHARE_FULL

    def _overtakes(self) -> bool:
        """Somebody waits who could be let in: there was no ``settle`` since it became so."""
        return any(self._fault(ticket.caller) is None for ticket in self._waiting)

    def _may_wait(self, reason: Reason | None) -> bool:
        """Slots come free before long; a strain or a shutdown is no matter of one's turn."""
        return reason not in _LASTING and self.waiting < self._settings.waiting

    def _lease(self, caller: Caller, now: float) -> Lease:
        lease = Lease(caller, now, now)
        self._leases[lease] = None
        self._used.update(_groups(caller))
        self._displace()
        return lease

    def _refusal(self, reason: Reason, position: int = 0) -> Refusal:
        if reason in _LASTING:
            position = 0
        estimate = math.ceil(position * self._call_s / max(1, self._room.most)) or _RETRY_S
        return Refusal(reason, position, min(estimate, MOST_RETRY_S))

    def _shares(self) -> Iterator[tuple[str, float, int]]:
        yield _PHONE, self._settings.phone_share, 0
        for name, tenant in self._tenants.items():
            yield _group(name), tenant.share, tenant.max_calls

    def _files_of(self, engine: str) -> int:
        return sum(engine in lease.engines for lease in self._files)

    def _free(self, engine: str) -> float:
        """Slots that neither a call nor a file holds."""
        return self._room.engines.get(engine, math.inf) - self.calls - self._files_of(engine)

    def _displace(self) -> None:
        """Take from files, the newest first, what calls hold; and all of it under strain."""
        for lease in reversed(list(self._files)):
            if self._room.strain >= Strain.NO_FILES or any(
                self._free(engine) < 0 for engine in lease.engines
            ):
                del self._files[lease]
                self._displaced.append(lease)


def _group(tenant: str) -> str:
    return f"tenant {tenant}"


def _groups(caller: Caller) -> tuple[str, ...]:
    """What a caller counts for."""
    return (_group(caller.tenant), _PHONE) if caller.phone else (_group(caller.tenant),)


def fault_of_shares(settings: AdmissionSettings, tenants: Mapping[str, TenantSettings]) -> str:
    """What is wrong with these settings together, empty where nothing is."""
    total = settings.phone_share + sum(tenant.share for tenant in tenants.values())
    if total > 1 + 1e-9:
        return (
            f"admission.phone_share and the shares of all tenants come to {total:g}:"
            " together they can be 1 at most"
        )
    for name in tenants:
        if not _NAME.fullmatch(name):
            return f"tenants.{name}: a tenant's name has 1 to 40 letters, digits, - and _"
    return ""
