"""Token buckets by a clock of the test's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.admission import Caller, TenantSettings
from voice.rates import Allowance, Bucket, Rates, Sparing


def test_a_bucket_gives_what_it_holds_and_then_one_at_a_time() -> None:
    bucket = Bucket(3, 0.5)
    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert (bucket.left(10.0), bucket.wait_s(10.0), bucket.full_in_s(10.0)) == (0, 2.0, 6.0)
    assert not bucket.take(11.9)
    assert bucket.take(12.0)
    assert bucket.left(1_000.0) == 3
    assert bucket.full_in_s(1_000.0) == 0


def test_what_is_spent_without_asking_is_owed() -> None:
    bucket = Bucket(2, 1.0)
    assert bucket.spend(1.5, 0.0) == 0
    assert bucket.spend(1.5, 0.0) == pytest.approx(1.0)
    assert bucket.left(0.0) == 0
    assert bucket.spend(0, 1.0) == 0


def test_a_clock_that_stands_still_or_falls_fills_nothing() -> None:
    bucket = Bucket(1, 1.0)
    assert bucket.take(5.0)
    assert not bucket.take(5.0)
    assert not bucket.take(1.0)


@given(st.lists(st.floats(0, 5), max_size=60))
def test_no_more_is_given_than_there_was_and_has_come(pauses: list[float]) -> None:
    bucket, now, taken = Bucket(4, 2.0), 100.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now)
        assert taken <= 4 + 2.0 * (now - 100.0) + 1e-6


def test_each_key_of_a_tenant_has_an_allowance_of_its_own() -> None:
    rates = Rates({"acme": TenantSettings(sessions_per_minute=60, requests_per_minute=120)})
    first, second = Caller("acme", key="1"), Caller("acme", key="2")
    assert rates.of(first) is rates.of(Caller("acme", phone=True, key="1"))
    assert rates.of(first) is not rates.of(second)
    sessions, requests = rates.of(first).sessions, rates.of(first).requests
    assert sessions is not None
    assert requests is not None
    assert (sessions.size, requests.size) == (60, 120)
    assert sessions.spend(61, 0.0) == pytest.approx(1.0)
    assert rates.of(Caller("others")) == Allowance()
    assert Rates({"free": TenantSettings()}).of(Caller("free")) == Allowance()


def test_what_happens_again_and_again_is_told_now_and_then_with_how_often() -> None:
    sparing = Sparing(60.0)
    assert [sparing.due("full", at) for at in (0.0, 1.0, 59.0, 60.0, 61.0, 200.0)] == [
        1, 0, 0, 3, 0, 2
    ]  # fmt: skip
    assert sparing.due("another", 200.5) == 1
