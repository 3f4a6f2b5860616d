"""No client leads this server into its private network."""

import httpx
import pytest

from voice.mcp.guard import PrivateAddressError, PublicOnly, is_public, open_client, resolved


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("0.0.0.0", "100.64.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::"),
        *("nonsense", ""),
    ],
)
def test_what_is_not_of_the_public_internet(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_what_is(address: str) -> None:
    assert is_public(address)


class Names:
    """A name server that says something else each time."""

    def __init__(self, *answers: list[str]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._answers = iter(answers)

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        return next(self._answers)


def guarded(names: Names) -> tuple[httpx.AsyncClient, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, text="hello")

    transport = PublicOnly(httpx.MockTransport(handle), names)
    return httpx.AsyncClient(transport=transport), seen


async def test_the_address_that_was_judged_is_the_one_that_is_called() -> None:
    client, seen = guarded(Names(["8.8.8.8"], ["10.0.0.1"]))
    async with client:
        answer = await client.post("https://tools.test:8443/mcp?x=1", content=b"hi")
        with pytest.raises(PrivateAddressError, match="not one of the public Internet"):
            await client.post("https://tools.test:8443/mcp", content=b"hi")
    (request,) = seen
    assert answer.text == "hello"
    assert str(request.url) == "https://8.8.8.8:8443/mcp?x=1"
    assert request.headers["host"] == "tools.test:8443"
    assert request.extensions["sni_hostname"] == "tools.test"
    assert request.content == b"hi"


async def test_one_private_address_among_a_names_is_one_too_many() -> None:
    names = Names(["8.8.8.8", "127.0.0.1"], [])
    client, seen = guarded(names)
    async with client:
        for _ in range(2):
            with pytest.raises(PrivateAddressError):
                await client.get("https://tools.test/")
    assert names.asked == [("tools.test", 443)] * 2
    assert not seen


async def test_names_are_looked_up_as_the_system_does() -> None:
    assert set(await resolved("localhost", 443)) <= {"127.0.0.1", "::1"}
    assert await resolved("127.0.0.1", 443) == ["127.0.0.1"]
    with pytest.raises(httpx.ConnectError, match="cannot be resolved"):
        await resolved("no-such-name.invalid", 443)


async def test_a_client_for_any_server_does_not_reach_this_machine() -> None:
    async with await open_client(public_only=True, connect_s=1) as client:
        for host in ("localhost", "127.0.0.1", "[::1]"):
            with pytest.raises(PrivateAddressError):
                await client.get(f"https://{host}:1/")
        assert not client.follow_redirects
        assert not client.trust_env
