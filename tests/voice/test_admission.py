"""Admission: whom it lets in, who waits, what is kept for whom, and that nothing ever leaks."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from pipelines.strain import Strain
from voice.admission import (
    MOST_RETRY_S,
    Admission,
    AdmissionSettings,
    Caller,
    FileLease,
    Lease,
    Reason,
    Refusal,
    Room,
    TenantSettings,
    Ticket,
    fault_of_shares,
)

NOBODY: Mapping[str, TenantSettings] = {}
ACME, ZETA, PHONE = Caller("acme"), Caller("zeta"), Caller(phone=True)


def admission(
    calls: int = 2, tenants: Mapping[str, TenantSettings] = NOBODY, **values: Any
) -> Admission:
    return Admission(AdmissionSettings(**values), tenants, Room(calls))


def leases(count: int, of: Admission, caller: Caller = Caller()) -> list[Lease]:  # noqa: B008 - frozen
    held = [of.ask(caller, 0.0) for _ in range(count)]
    assert all(isinstance(lease, Lease) for lease in held)
    return held  # type: ignore[return-value]


def refused(answer: object) -> Reason:
    assert isinstance(answer, Refusal)
    return answer.reason


# --- slots ----------------------------------------------------------------------------------


def test_there_are_as_many_calls_as_slots_and_no_more() -> None:
    house = admission(2)
    first, _ = leases(2, house)
    assert refused(house.ask(Caller(), 1.0)) is Reason.SERVER_FULL
    assert house.give_back(first, 2.0)
    assert isinstance(house.ask(Caller(), 3.0), Lease)
    assert house.calls == 2


def test_a_lease_is_given_back_once() -> None:
    house = admission(1)
    [lease] = leases(1, house)
    assert house.give_back(lease, 1.0)
    assert not house.give_back(lease, 1.0)
    leases(1, house)
    assert not house.give_back(lease, 1.0)
    assert house.calls == 1


def test_the_scarcest_engine_bounds_the_calls() -> None:
    house = admission(10)
    house.room = Room(10, {"asr": 4, "tts": 3})
    leases(3, house)
    assert refused(house.ask(Caller(), 1.0)) is Reason.SERVER_FULL
    assert list(house.slots()) == [("calls", 3, 3), ("asr", 4, 3), ("tts", 3, 3)]


def test_slots_that_are_lost_end_no_call_and_let_nobody_in() -> None:
    house = admission(3)
    held = leases(3, house)
    house.room = Room(1)
    for lease in held[:2]:
        assert refused(house.ask(Caller(), 1.0)) is Reason.SERVER_FULL
        house.give_back(lease, 1.0)
    assert refused(house.ask(Caller(), 1.0)) is Reason.SERVER_FULL
    house.give_back(held[2], 1.0)
    leases(1, house)


def test_a_call_whose_caller_gives_no_sign_is_lost_and_its_slot_free() -> None:
    house = admission(2, lost_s=30)
    silent, alive = leases(2, house)
    house.beat(alive, 15.0)
    house.beat(alive, 10.0)  # signs may be told in any order
    assert house.expire(29.9) == []
    assert house.expire(30.0) == [silent]
    assert house.calls == 1
    assert not house.give_back(silent, 31.0)
    assert house.expire(44.9) == []
    assert house.expire(45.0) == [alive]


def test_how_long_calls_last_tells_when_to_try_again() -> None:
    house = admission(2)
    first, second = leases(2, house)
    full = house.ask(Caller(), 0.0)
    assert full == Refusal(Reason.SERVER_FULL, 1, 5)
    house.give_back(first, 30.0)
    house.ask(Caller(), 30.0)
    assert house.ask(Caller(), 30.0) == Refusal(Reason.SERVER_FULL, 1, 15)
    house.give_back(second, 10_000.0)
    house.ask(Caller(), 10_000.0)
    assert house.ask(Caller(), 10_000.0) == Refusal(Reason.SERVER_FULL, 1, MOST_RETRY_S)


# --- the waiting room -----------------------------------------------------------------------


def test_who_waits_is_let_in_by_the_order_of_coming() -> None:
    house = admission(1, waiting=2)
    [lease] = leases(1, house)
    first, second = house.ask(Caller(), 1.0), house.ask(Caller(), 2.0)
    assert isinstance(first, Ticket)
    assert isinstance(second, Ticket)
    third = house.ask(Caller(), 3.0)
    assert third == Refusal(Reason.SERVER_FULL, 3, 5)
    assert house.settle(4.0) == []
    house.give_back(lease, 5.0)
    [(settled, leased)] = house.settle(5.0)
    assert settled is first
    assert isinstance(leased, Lease)
    assert (house.calls, house.waiting) == (1, 1)


def test_who_comes_overtakes_nobody_who_waits() -> None:
    house = admission(1, waiting=2)
    [lease] = leases(1, house)
    first = house.ask(Caller(), 1.0)
    house.give_back(lease, 2.0)
    second = house.ask(Caller(), 2.0)  # before anybody was told
    assert isinstance(second, Ticket)
    assert refused(house.ask(Caller(), 2.0)) is Reason.SERVER_FULL
    assert [ticket for ticket, _ in house.settle(2.0)] == [first]


def test_nobody_waits_for_ever() -> None:
    house = admission(1, waiting=2, wait_s=20)
    leases(1, house)
    first, second = house.ask(Caller(), 0.0), house.ask(Caller(), 10.0)
    assert house.settle(19.9) == []
    assert house.settle(20.0) == [(first, Refusal(Reason.WAITED, 1, 5))]
    assert house.settle(30.0) == [(second, Refusal(Reason.WAITED, 1, 5))]
    assert house.waiting == 0


def test_who_goes_leaves_the_place_to_another() -> None:
    house = admission(1, waiting=1)
    leases(1, house)
    gone = house.ask(Caller(), 0.0)
    assert isinstance(gone, Ticket)
    house.withdraw(gone)
    house.withdraw(gone)
    assert isinstance(house.ask(Caller(), 0.0), Ticket)


def test_a_house_that_sees_how_it_bears_its_calls_lets_others_wait_for_that() -> None:
    house = admission(3, waiting=1)
    leases(1, house)
    house.room = Room(3, bearable=1)
    ticket = house.ask(Caller(), 1.0)
    assert isinstance(ticket, Ticket)
    assert refused(house.ask(Caller(), 1.0)) is Reason.SETTLING
    assert house.settle(1.5) == []
    house.room = Room(3, bearable=1.9)
    assert house.settle(1.7) == []
    house.room = Room(3, bearable=2.1)
    [(let_in, lease)] = house.settle(2.0)
    assert let_in is ticket
    assert isinstance(lease, Lease)


def test_strain_refuses_new_calls_and_lets_those_wait_who_wait() -> None:
    house = admission(2, waiting=1)
    leases(2, house)[0]
    waits = house.ask(Caller(), 0.0)
    house.room = Room(3, strain=Strain.NO_CALLS)
    assert house.settle(1.0) == []
    assert house.ask(Caller(), 1.0) == Refusal(Reason.OVERLOADED, 0, 5)
    house.room = Room(3, strain=Strain.NO_FILES)
    assert [ticket for ticket, _ in house.settle(2.0)] == [waits]


def test_a_house_that_closes_sends_those_away_who_wait_and_keeps_its_calls() -> None:
    house = admission(1, waiting=1)
    leases(1, house)
    waits = house.ask(Caller(), 0.0)
    house.room = Room(5, closing=True)
    assert house.settle(1.0) == [(waits, Refusal(Reason.CLOSING, 0, 5))]
    assert refused(house.ask(Caller(), 1.0)) is Reason.CLOSING
    assert house.calls == 1


# --- what is kept ---------------------------------------------------------------------------


def test_what_is_kept_for_a_tenant_is_taken_by_nobody_else() -> None:
    house = admission(4, {"acme": TenantSettings(("k",), share=0.5)})
    assert house.kept == {"tenant acme": 2}
    leases(2, house)
    assert refused(house.ask(ZETA, 0.0)) is Reason.SHARE_FULL
    leases(2, house, ACME)
    assert refused(house.ask(ACME, 0.0)) is Reason.SERVER_FULL
    assert house.by_tenant() == {"acme": 2, "default": 2}


def test_a_tenant_may_have_more_than_its_share_where_others_leave_it() -> None:
    house = admission(4, {"acme": TenantSettings(("k",), share=0.25)}, phone_share=0.25)
    leases(3, house, ACME)
    assert refused(house.ask(ACME, 0.0)) is Reason.SHARE_FULL  # the last one is for a phone
    leases(1, house, PHONE)


def test_a_phone_call_of_a_tenant_counts_for_both() -> None:
    house = admission(4, {"acme": TenantSettings(("k",), share=0.25)}, phone_share=0.25)
    leases(1, house, Caller("acme", phone=True))
    leases(3, house)


def test_a_share_of_slots_that_were_lost_is_as_much_smaller() -> None:
    house = admission(4, {"acme": TenantSettings(("k",), share=0.5)})
    leases(2, house)
    house.room = Room(3)
    assert house.kept == {"tenant acme": 1}
    assert refused(house.ask(ZETA, 0.0)) is Reason.SHARE_FULL
    leases(1, house, ACME)


def test_a_share_that_comes_to_no_whole_call_keeps_none() -> None:
    tenants = {"acme": TenantSettings(("k",), share=0.4), "zeta": TenantSettings(("l",))}
    house = admission(2, tenants)
    assert house.kept == {}
    leases(2, house)
    assert admission(100, {"acme": TenantSettings(("k",), share=0.29)}).kept == {"tenant acme": 29}


def test_no_more_is_kept_for_a_tenant_than_it_may_have() -> None:
    house = admission(10, {"acme": TenantSettings(("k",), share=0.5, max_calls=2)})
    assert house.kept == {"tenant acme": 2}


def test_a_tenant_has_no_more_calls_than_it_may() -> None:
    house = admission(4, {"acme": TenantSettings(("k",), max_calls=1)}, waiting=2)
    [lease] = leases(1, house, ACME)
    waits = house.ask(ACME, 0.0)
    assert isinstance(waits, Ticket)
    leases(1, house, ZETA)  # who could be let in need not wait behind who could not
    house.give_back(lease, 1.0)
    assert [ticket for ticket, _ in house.settle(1.0)] == [waits]
    full = admission(4, {"acme": TenantSettings(("k",), max_calls=1)})
    leases(1, full, ACME)
    assert refused(full.ask(ACME, 0.0)) is Reason.TENANT_FULL


# --- files ----------------------------------------------------------------------------------


def test_a_file_has_what_no_call_wants_and_loses_it_to_the_first_that_does() -> None:
    house = admission(3)
    house.room = Room(3, {"asr": 2, "tts": 3})
    older, newer = house.ask_for_file(["asr"]), house.ask_for_file(["asr"])
    assert isinstance(older, FileLease)
    assert isinstance(newer, FileLease)
    assert refused(house.ask_for_file(["asr"])) is Reason.SERVER_FULL
    assert list(house.slots())[1] == ("asr", 2, 2)
    leases(1, house)
    assert house.take_displaced() == [newer]
    assert house.take_displaced() == []
    assert not house.give_back_file(newer)
    leases(1, house)
    assert house.take_displaced() == [older]
    assert refused(house.ask_for_file(["asr"])) is Reason.SERVER_FULL


def test_a_file_that_wants_other_engines_keeps_them() -> None:
    house = admission(2)
    house.room = Room(2, {"asr": 1, "tts": 5})
    speaks, hears = house.ask_for_file(["tts"]), house.ask_for_file(["asr"])
    leases(1, house)
    assert house.take_displaced() == [hears]
    assert isinstance(speaks, FileLease)
    assert house.give_back_file(speaks)
    assert not house.give_back_file(speaks)


def test_an_engine_without_a_bound_takes_any_file() -> None:
    house = admission(1)
    assert all(isinstance(house.ask_for_file(["llm"]), FileLease) for _ in range(10))
    leases(1, house)
    assert house.take_displaced() == []


def test_files_stop_under_strain_and_before_the_end() -> None:
    house = admission(2)
    running = house.ask_for_file(["asr"])
    house.room = Room(2, strain=Strain.NO_FILES)
    assert refused(house.ask_for_file(["asr"])) is Reason.OVERLOADED
    assert house.settle(0.0) == []
    assert house.take_displaced() == [running]
    house.room = Room(2, closing=True)
    assert refused(house.ask_for_file(["asr"])) is Reason.CLOSING


def test_a_file_loses_slots_that_the_house_has_lost() -> None:
    house = admission(4)
    house.room = Room(4, {"asr": 2})
    files = [house.ask_for_file(["asr"]) for _ in range(2)]
    house.room = Room(4, {"asr": 1})
    house.settle(0.0)
    assert house.take_displaced() == files[1:]


# --- settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phone_share", "shares", "words"),
    [
        (0.0, {}, ""),
        (0.4, {"a": 0.3, "b-C_1": 0.3}, ""),
        (0.5, {"a": 0.6}, "tenants come to 1.1: together they can be 1 at most"),
        (0.0, {"a b": 0.1}, "tenants.a b: a tenant's name has 1 to 40 letters"),
        (0.0, {"x" * 41: 0.1}, "1 to 40 letters"),
        (0.0, {"": 0.1}, "1 to 40 letters"),
    ],
)
def test_shares_that_cannot_hold_together_are_told(
    phone_share: float, shares: dict[str, float], words: str
) -> None:
    tenants = {name: TenantSettings(("key",), share) for name, share in shares.items()}
    fault = fault_of_shares(AdmissionSettings(phone_share=phone_share), tenants)
    assert words in fault
    assert bool(fault) is bool(words)


def test_keys_are_not_shown_with_their_tenant() -> None:
    assert "secret" not in repr(TenantSettings(("secret",)))


# --- its promises ---------------------------------------------------------------------------

TENANTS = {
    "acme": TenantSettings(("a",), share=0.4),
    "zeta": TenantSettings(("z",), share=0.2, max_calls=2),
}
CALLERS = st.just(Caller("acme")) | st.builds(
    Caller, st.sampled_from(["default", "acme", "zeta", "ghost"]), st.booleans()
)


class AdmissionPromises(RuleBasedStateMachine):
    """A house with every kind of caller; ``held`` and ``lined_up`` are what it should know."""

    tokens = Bundle("tokens")
    jobs = Bundle("jobs")

    @initialize(phone=st.sampled_from([0.0, 0.2]), waiting=st.integers(0, 4))
    def open(self, phone: float, waiting: int) -> None:
        self.now = 0.0
        self.settings = AdmissionSettings(phone_share=phone, waiting=waiting, wait_s=10, lost_s=15)
        self.house = Admission(self.settings, TENANTS, Room(5))
        self.held: dict[Lease, float] = {}
        self.lined_up: list[Ticket] = []
        self.files: set[FileLease] = set()
        self.settled: dict[Ticket, Lease | Refusal] = {}

    @rule(target=tokens, caller=CALLERS)
    def ask(self, caller: Caller) -> Any:
        before = self.house.calls
        foretold = self.house.refuses(caller)
        answer = self.house.ask(caller, self.now)
        assert foretold == (answer if isinstance(answer, Refusal) else None)
        if isinstance(answer, Lease):
            assert before < self.house.room.most
            assert not self.house.room.closing
            assert self.house.room.strain < Strain.NO_CALLS
            assert caller not in [ticket.caller for ticket in self.lined_up]
            self.let_in(answer, before)
            self.files_make_room()
        elif isinstance(answer, Ticket):
            self.lined_up.append(answer)
        else:
            assert answer.retry_s > 0
            assert answer.position in (0, len(self.lined_up) + 1)
            assert answer.reason is not Reason.SHARE_FULL or not self.is_short(caller)
            return multiple()
        return answer

    @rule(token=consumes(tokens))
    def leave(self, token: Lease | Ticket) -> None:
        if isinstance(token, Ticket):
            self.house.withdraw(token)
            if token in self.lined_up:
                self.lined_up.remove(token)
            token = self.settled.get(token)  # type: ignore[assignment]
        if isinstance(token, Lease):
            assert self.house.give_back(token, self.now) is (token in self.held)
            self.held.pop(token, None)
            assert not self.house.give_back(token, self.now)

    @rule(token=tokens)
    def beat(self, token: Lease | Ticket) -> None:
        if isinstance(token, Lease):
            self.house.beat(token, self.now)
            if token in self.held:
                self.held[token] = self.now

    @rule(seconds=st.sampled_from([0.5, 4.0, 10.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def expire(self) -> None:
        lost = {lease for lease, at in self.held.items() if at <= self.now - 15}
        assert set(self.house.expire(self.now)) == lost
        for lease in lost:
            del self.held[lease]

    @rule(
        calls=st.integers(0, 6),
        engines=st.dictionaries(st.sampled_from(["asr", "llm", "tts"]), st.integers(0, 6)),
        strain=st.sampled_from([Strain.NONE, Strain.NONE, Strain.NO_FILES, Strain.NO_CALLS]),
        closing=st.sampled_from([False, False, False, True]),
    )
    def change(self, calls: int, engines: dict[str, int], strain: Strain, closing: bool) -> None:
        self.house.room = Room(calls, engines, strain, closing)

    @rule()
    def settle(self) -> None:
        free = self.house.room.most - self.house.calls
        before = self.house.calls
        settled = self.house.settle(self.now)
        for ticket, answer in settled:
            assert ticket not in self.settled
            self.settled[ticket] = answer
            if isinstance(answer, Lease):
                free -= 1
                assert free >= 0
                earlier = self.lined_up[: self.lined_up.index(ticket)]
                assert ticket.caller not in [each.caller for each in earlier]
                self.let_in(answer, before)
                before += 1
            else:
                assert ticket.deadline <= self.now or self.house.room.closing
            self.lined_up.remove(ticket)
        assert all(ticket.deadline > self.now for ticket in self.lined_up)
        self.files_make_room()

    @rule(target=jobs, engines=st.sets(st.sampled_from(["asr", "llm", "tts"]), min_size=1))
    def ask_for_file(self, engines: set[str]) -> Any:
        answer = self.house.ask_for_file(engines)
        if isinstance(answer, Refusal):
            return multiple()
        assert self.house.room.strain < Strain.NO_FILES
        self.files.add(answer)
        return answer

    @rule(job=consumes(jobs))
    def finish_file(self, job: FileLease) -> None:
        self.stop_displaced()
        assert self.house.give_back_file(job) is (job in self.files)
        self.files.discard(job)

    def let_in(self, lease: Lease, calls: int) -> None:
        """What was kept for others before is so still."""
        assert lease not in self.held
        entitled = self.is_short(lease.caller)
        self.held[lease] = self.now
        kept = self.house.kept.items()
        unmet = sum(max(0, slots - self.count(group)) for group, slots in kept)
        assert entitled or self.house.room.most - calls - 1 >= unmet

    def is_short(self, caller: Caller) -> bool:
        """Less is held than is kept for such a caller."""
        groups = (f"tenant {caller.tenant}", "phone" if caller.phone else "")
        return any(self.count(group) < self.house.kept.get(group, 0) for group in groups)

    def count(self, group: str) -> int:
        return sum(
            group in (f"tenant {lease.caller.tenant}", "phone" if lease.caller.phone else "")
            for lease in self.held
        )

    def stop_displaced(self) -> None:
        for job in self.house.take_displaced():
            self.files.remove(job)

    def files_make_room(self) -> None:
        self.stop_displaced()
        assert not self.files or self.house.room.strain < Strain.NO_FILES
        used = {name: leased for name, _, leased in self.house.slots()}
        for engine, slots in self.house.room.engines.items():
            files = sum(engine in job.engines for job in self.files)
            assert used[engine] == len(self.held) + files
            assert files == 0 or used[engine] <= slots

    @invariant()
    def nothing_leaks_and_nothing_is_doubled(self) -> None:
        assert self.house.calls == len(self.held)
        assert self.house.waiting == len(self.lined_up) <= self.settings.waiting
        for tenant in ("default", "acme", "zeta", "ghost"):
            assert self.house.used(tenant) == self.count(f"tenant {tenant}")
        assert self.house.used("zeta") <= 2

    def teardown(self) -> None:
        """Whatever has happened, once all are gone nothing is held."""
        if not hasattr(self, "house"):
            return
        for lease in self.held:
            assert self.house.give_back(lease, self.now)
        for ticket in self.lined_up:
            self.house.withdraw(ticket)
        for job in self.files:
            assert self.house.give_back_file(job)
        self.house.room = Room(2, {"asr": 2})
        assert (self.house.calls, self.house.waiting) == (0, 0)
        assert [leased for _, _, leased in self.house.slots()] == [0, 0]
        assert sum(self.house.used(name) for name in ("default", "acme", "zeta", "ghost")) == 0


TestAdmissionPromises = AdmissionPromises.TestCase
TestAdmissionPromises.settings = settings(max_examples=200, stateful_step_count=40)
