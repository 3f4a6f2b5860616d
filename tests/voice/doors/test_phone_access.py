"""Who may call by phone: who has a key, and carriers that prove to be theirs."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from voice.wire.phone_signatures import TELNYX_HEADER

TOKEN = "t0ken"
KEYS = "server.api_keys=key1,key2"


async def status(server: Any, path: str, headers: dict[str, str] | None = None, **more: Any) -> int:
    """The status of the handshake: 101 where it is let in."""
    url = f"ws://127.0.0.1:{server.port}{path}"
    try:
        async with connect(url, proxy=None, additional_headers=headers or {}, **more):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def signed(url: str, token: str = TOKEN) -> dict[str, str]:
    mac = hmac.new(token.encode(), url.encode(), hashlib.sha1)
    return {"X-Twilio-Signature": base64.b64encode(mac.digest()).decode()}


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/phone/twilio", {}, 401),
        ("/phone", {}, 401),
        ("/phone/twilio/key2", {}, 101),
        ("/phone/any/key2", {}, 101),
        ("/phone/any/wrong", {}, 401),
        ("/phone/vonage?key=key1", {}, 101),
        ("/phone/vonage?key=wrong", {}, 401),
        ("/phone", {"Authorization": "Bearer key1"}, 101),
        ("/phone/plivo", {"X-API-Key": "key1"}, 101),
        ("/phone/plivo", {"X-API-Key": "key"}, 401),
        ("/phone/nobody/key1", {}, 404),
    ],
)
async def test_a_key_opens_in_whichever_place_a_carrier_can_send_it(
    serve: Any, path: str, headers: dict[str, str], expected: int
) -> None:
    server = await serve(KEYS)
    assert await status(server, path, headers) == expected


async def test_a_secret_makes_its_carrier_s_proof_compulsory(serve: Any) -> None:
    server = await serve(KEYS, f"phone.twilio_token={TOKEN}", "phone.url=wss://voice.example/")
    right = signed("wss://voice.example/phone/twilio")
    assert await status(server, "/phone/twilio", right) == 101
    assert await status(server, "/phone/twilio/key1") == 401
    assert await status(server, "/phone/twilio", signed("wss://voice.example/phone")) == 401
    wrong = signed("wss://voice.example/phone/twilio", "other")
    assert await status(server, "/phone/twilio", wrong) == 401
    assert await status(server, "/phone", signed("wss://voice.example/phone")) == 101
    assert await status(server, "/phone/plivo", right) == 401  # it proves nothing of Plivo
    assert await status(server, "/phone/plivo/key1", right) == 101


async def test_why_a_proof_fails_is_logged_without_what_is_secret(serve: Any, caplog: Any) -> None:
    server = await serve(KEYS, f"phone.twilio_token={TOKEN}", "phone.url=wss://voice.example")
    assert await status(server, "/phone/twilio/key2", signed("wss://elsewhere.example")) == 401
    assert "a handshake is not twilio's" in caplog.text
    assert "wss://voice.example/phone/twilio/KEY" in caplog.text
    assert "key2" not in caplog.text
    assert TOKEN not in caplog.text
    caplog.clear()
    assert await status(server, "/phone/plivo/key1") == 101  # that carrier was not meant
    assert "twilio" not in caplog.text


async def test_without_an_address_that_of_the_request_is_proved(serve: Any) -> None:
    server = await serve(KEYS, f"phone.twilio_token={TOKEN}")
    url = f"wss://127.0.0.1:{server.port}/phone/twilio"
    assert await status(server, "/phone/twilio", signed(url)) == 101
    assert await status(server, "/phone/twilio?record=1", signed(f"{url}?record=1")) == 101


async def test_telnyx_shows_its_token(serve: Any) -> None:
    server = await serve(f"phone.telnyx_token={TOKEN}")
    assert await status(server, "/phone/telnyx", {TELNYX_HEADER: TOKEN}) == 101
    assert await status(server, "/phone/telnyx", {TELNYX_HEADER: "other"}) == 401
    assert await status(server, "/phone/telnyx") == 401


async def test_genesys_without_its_signature_is_nobody(serve: Any) -> None:
    server = await serve("phone.genesys_key=k", "phone.genesys_secret=c2VjcmV0")
    assert await status(server, "/phone/genesys", {"X-API-KEY": "k"}) == 401


async def test_a_page_from_elsewhere_has_no_telephone(serve: Any) -> None:
    server = await serve()
    assert await status(server, "/phone/twilio", origin="https://evil.example") == 403


async def test_who_comes_too_early_or_too_late_is_told_by_http(serve: Any) -> None:
    server = await serve(ready=False)
    assert await status(server, "/phone/twilio") == 503
    server.house.ready = True
    server.house.close()
    assert await status(server, "/phone/twilio") == 503


async def test_who_has_no_key_is_told_where_one_goes(serve: Any) -> None:
    server = await serve(KEYS)
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://127.0.0.1:{server.port}/phone", proxy=None)
    assert b"didn't provide an API key" in refused.value.response.body
    assert b"/phone/NAME/KEY" in refused.value.response.body
