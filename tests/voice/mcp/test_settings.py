"""Which MCP servers may be named."""

import pytest

from voice.config import ConfigError, load
from voice.mcp.settings import McpSettings, parsed

LISTED = ("https://tools.example/mcp", "http://127.0.0.1:9000", "https://other.example:8443/")


@pytest.mark.parametrize(
    "url",
    [
        *("https://tools.example/mcp", "https://tools.example/mcp/", "https://tools.example/mcp/a"),
        *("https://TOOLS.example:443/mcp?key=1", "http://127.0.0.1:9000/x/y"),
        *("https://other.example:8443/", "https://other.example:8443/mcp"),
    ],
)
def test_what_is_listed_is_let_in_and_what_lies_below(url: str) -> None:
    assert McpSettings(LISTED).reach(url) == "listed"


@pytest.mark.parametrize(
    "url",
    [
        *("https://tools.example/", "https://tools.example/mcpx", "http://tools.example/mcp"),
        *("https://tools.example:444/mcp", "https://tools.example.evil/mcp"),
        *("https://tools.example@evil.example/mcp", "https://evil.example/https://tools.example"),
        *("https://tools.example/mcp/../admin", "https://tools.example/mcp/%2e%2e/admin"),
        *("https://tools.example/mcp%2f..%2fadmin", "https://tools.example/mcp/..\\admin"),
        *("http://127.0.0.1:9001/", "http://127.0.0.1/", "ftp://tools.example/mcp", "", "x"),
        *("https://tools.example/mcp#x", "https://", "https://[::1"),
    ],
)
def test_nothing_else_is(url: str) -> None:
    assert McpSettings(LISTED).reach(url) is None


def test_none_are_let_in_unless_one_is_named() -> None:
    assert McpSettings().reach("https://tools.example/mcp") is None


def test_any_is_any_by_https() -> None:
    settings = McpSettings(("*", "http://127.0.0.1:9000"))
    assert settings.reach("https://tools.example/mcp") == "public"
    assert settings.reach("https://127.0.0.1/mcp") == "public"  # and is refused when it is called
    assert settings.reach("http://tools.example/mcp") is None
    assert settings.reach("http://127.0.0.1:9000/mcp") == "listed"


def test_what_is_no_url_is_no_setting() -> None:
    with pytest.raises(ConfigError, match=r"mcp\.servers: 'tools\.example' must look like"):
        load(settings=["mcp.servers=tools.example"])
    assert load(settings=["mcp.servers=*,https://a.example/x"]).mcp.servers == (
        "*",
        "https://a.example/x",
    )


def test_dots_that_lead_nowhere_are_read_away() -> None:
    url = parsed("https://tools.example/a/./b/../mcp")
    assert url is not None
    assert url.path == "/a/mcp"
