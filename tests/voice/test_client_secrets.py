"""Keys for pages: how long they are good for, and how many there may be."""

import itertools

import pytest

from voice import client_secrets
from voice.client_secrets import PREFIX, ClientSecrets, TooManyKeysError
from voice.wire.realtime_session import RealtimeSession

SESSION = RealtimeSession(id="sess_1", instructions="Be brief.")


def test_a_key_is_good_until_it_expires_and_for_its_tenant() -> None:
    secrets = ClientSecrets()
    value, grant = secrets.issue("acme", "2", SESSION, 60, now=1_000.9)
    assert value.startswith(PREFIX)
    assert len(value) > 40
    assert grant.expires_at == 1_060
    assert secrets.find(value, 1_059.9) == grant
    assert (grant.tenant, grant.key, grant.session) == ("acme", "2", SESSION)
    assert secrets.find(value, 1_060.0) is None
    assert secrets.find(value, 1_000.0) is None  # forgotten, not merely refused


def test_other_words_are_no_keys() -> None:
    secrets = ClientSecrets()
    value, _ = secrets.issue("acme", "1", SESSION, 60, now=0.0)
    for wrong in (
        "",
        "ours",
        PREFIX,
        value[:-1],
        value.upper(),
        value.removeprefix(PREFIX),
        "ek_é",
    ):
        assert secrets.find(wrong, 1.0) is None


def test_no_two_keys_are_alike_and_none_is_kept() -> None:
    secrets = ClientSecrets()
    values = {secrets.issue("acme", "1", SESSION, 60, now=0.0)[0] for _ in range(100)}
    assert len(values) == 100
    assert not any(value in repr(vars(secrets)) for value in values)


def test_a_tenant_has_so_many_keys_and_takes_none_from_others() -> None:
    numbers = itertools.count()
    secrets = ClientSecrets(lambda: f"{PREFIX}{next(numbers)}")
    for _ in range(client_secrets.MOST_KEYS):
        secrets.issue("acme", "1", SESSION, 60, now=100.5)
    with pytest.raises(TooManyKeysError) as full:
        secrets.issue("acme", "2", SESSION, 60, now=130.0)
    assert full.value.retry_s == 30
    secrets.issue("other", "1", SESSION, 60, now=130.0)
    secrets.issue("acme", "1", SESSION, 60, now=160.0)


def test_large_sessions_count_by_their_size() -> None:
    secrets = ClientSecrets()
    large = RealtimeSession(instructions="x" * (client_secrets.MOST_BYTES // 2))
    secrets.issue("acme", "1", large, 10, now=0.0)
    with pytest.raises(TooManyKeysError):
        secrets.issue("acme", "1", large, 10, now=1.0)
    secrets.issue("acme", "1", large, 10, now=10.0)
