"""Who may use the server."""

import pytest

from voice.auth import fault_of_keys, is_foreign_page, is_loopback, presented_key, tenant_of


@pytest.mark.parametrize(
    ("headers", "subprotocols", "key"),
    [
        ({}, (), ""),
        ({"authorization": "Bearer abc"}, (), "abc"),
        ({"authorization": "bearer   abc "}, (), "abc"),
        ({"authorization": "Basic abc"}, (), ""),
        ({"authorization": "abc"}, (), ""),
        ({"authorization": "Bearer "}, (), ""),
        ({}, ("realtime", "openai-insecure-api-key.abc"), "abc"),
        ({}, ("realtime", "other"), ""),
        ({"authorization": "Bearer abc"}, ("openai-insecure-api-key.def",), "abc"),
        ({"authorization": "Basic x"}, ("openai-insecure-api-key.def",), "def"),
    ],
)
def test_a_key_comes_in_a_header_or_a_subprotocol(
    headers: dict[str, str], subprotocols: tuple[str, ...], key: str
) -> None:
    assert presented_key(headers, subprotocols) == key


KEYS = {"default": ("a", "b"), "acme": ("c",)}


@pytest.mark.parametrize(
    ("key", "tenant"),
    [("a", "default"), ("b", "default"), ("c", "acme"), ("", None), ("ab", None), ("B", None),
     ("ü", None), ("acme", None)],
)  # fmt: skip
def test_a_known_key_tells_whose_it_is_and_no_other_opens(key: str, tenant: str | None) -> None:
    assert tenant_of(key, KEYS) == tenant


def test_every_key_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return one == other

    monkeypatch.setattr("voice.auth.hmac.compare_digest", compare)
    assert tenant_of("a", KEYS) == "default"
    assert compared == [b"a", b"b", b"c"]


def test_without_keys_anyone_may_enter() -> None:
    assert tenant_of("", {"default": ()}) == "default"
    assert tenant_of("anything", {"default": ()}) == "default"


def test_where_only_tenants_have_keys_nobody_else_may_enter() -> None:
    assert tenant_of("", {"default": (), "acme": ("c",)}) is None


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (KEYS, ""),
        ({"default": ()}, ""),
        ({"a": ("secret", "secret")}, ""),
        ({"a": ()}, "tenants.a.keys: there is none, so nobody is this tenant"),
        ({"a": ("secret", "")}, "tenants.a.keys: one of them is empty"),
        ({"default": (" ",)}, "server.api_keys: one of them is empty"),
        ({"a": ("secret",), "b": ("secret",)}, "tenants.b.keys: a has one of them, too"),
        ({"a": ("secret",), "default": ("secret",)}, "server.api_keys: a has one of them, too"),
    ],
)
def test_keys_that_tell_nobody_apart_are_refused_and_not_shown(
    keys: dict[str, tuple[str, ...]], words: str
) -> None:
    fault = fault_of_keys(keys)
    assert words in fault
    assert bool(fault) is bool(words)
    assert "secret" not in fault


@pytest.mark.parametrize(
    ("origin", "host", "foreign"),
    [
        (None, "127.0.0.1:8080", False),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", False),
        ("https://voice.example", "voice.example", False),
        ("https://friend.example", "127.0.0.1:8080", False),
        ("http://127.0.0.1:9090", "127.0.0.1:8080", True),
        ("https://evil.example", "127.0.0.1:8080", True),
        ("https://friend.example.evil.example", "127.0.0.1:8080", True),
        ("null", "127.0.0.1:8080", True),
        ("https://evil.example", None, True),
    ],
)
def test_a_page_is_foreign_unless_it_is_ours_or_allowed(
    origin: str | None, host: str | None, foreign: bool
) -> None:
    headers = {"origin": origin, "host": host}
    given = {name: value for name, value in headers.items() if value is not None}
    assert is_foreign_page(given, ["https://friend.example"]) is foreign


@pytest.mark.parametrize(
    ("origin", "foreign"),
    [
        ("http://127.0.0.1:8080", False),
        ("http://localhost:8080", False),
        ("http://[::1]:8080", False),
        ("http://evil.example:8080", True),
        ("http://192.168.1.5:8080", True),
        ("null", True),
    ],
)
def test_without_keys_a_name_that_points_here_is_not_enough(origin: str, foreign: bool) -> None:
    """Origin and Host agree, as they do for a page whose name was made to point here."""
    headers = {"origin": origin, "host": origin.removeprefix("http://")}
    assert is_foreign_page(headers, [], keyless=True) is foreign
    assert is_foreign_page(headers, [origin], keyless=True) is False


def test_all_pages_may_be_allowed() -> None:
    assert not is_foreign_page({"origin": "https://evil.example", "host": "x"}, ["*"])


def test_the_loopback_is_known_by_its_addresses_and_one_name() -> None:
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.8.8.8", "::1"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "example", ""]))


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "https://a]b/"])
def test_an_origin_that_is_no_address_is_foreign(origin: str) -> None:
    assert is_foreign_page({"origin": origin, "host": "localhost"}, ())
