"""Who may use the server."""

import pytest

from voice.auth import is_foreign_page, is_loopback, may_enter, presented_key


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


def test_a_known_key_opens_and_no_other_does() -> None:
    assert may_enter("b", ("a", "b"))
    for key in ("", "c", "ab", "B", "ü"):
        assert not may_enter(key, ("a", "b"))


def test_without_keys_anyone_may_enter() -> None:
    assert may_enter("", ())
    assert may_enter("anything", ())


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
