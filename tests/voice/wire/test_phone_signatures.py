"""Signatures of carriers, against the examples in their own documents."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.wire.phone_signatures import (
    PhoneSignatureError,
    check_genesys,
    check_telnyx,
    check_twilio,
)

# Twilio Docs, "Webhooks security": the worked example.
URL = "https://mycompany.com/myapp.php?foo=1&bar=2"
FORM = {
    "CallSid": "CA1234567890ABCDE",
    "Caller": "+12349013030",
    "Digits": "1234",
    "From": "+12349013030",
    "To": "+18005551212",
}
SIGNED = "0/KCTR6DLpKmkAf8muzZqo1nDgQ="

# Genesys Cloud Developer Center, "AudioHook security": the worked example.
KEY = "SGVsbG8sIEkgYW0gdGhlIEFQSSBrZXkh"
SECRET = base64.b64decode("TXlTdXBlclNlY3JldEtleVRlbGxOby0xITJAMyM0JDU=")
TARGET = "/api/v1/voicebiometrics/ws"
CREATED = 1641013200
INPUT = (
    'sig1=("@request-target" "@authority" "audiohook-organization-id" "audiohook-session-id"'
    ' "audiohook-correlation-id" "x-api-key");keyid="SGVsbG8sIEkgYW0gdGhlIEFQSSBrZXkh"'
    ';nonce="VGhpc0lzQVVuaXF1ZU5vbmNl";alg="hmac-sha256";created=1641013200;expires=3282026430'
)
HEADERS = {
    "host": "audiohook.example.com",
    "audiohook-organization-id": "d7934305-0972-4844-938e-9060eef73d05",
    "audiohook-session-id": "30b0e395-84d3-4570-ac13-9a62d8f514c0",
    "audiohook-correlation-id": "e160e428-53e2-487c-977d-96989bf5c99d",
    "x-api-key": KEY,
    "signature": "sig1=:NZBwyBHRRyRoeLqy1IzOa9VYBuI8TgMFt2GRDkDuJh4=:",
    "signature-input": INPUT,
}


def sign(url: str, token: str) -> str:
    return base64.b64encode(hmac.new(token.encode(), url.encode(), hashlib.sha1).digest()).decode()


def test_twilios_own_example_fits() -> None:
    check_twilio(URL, SIGNED, "12345", FORM)
    check_twilio(URL, SIGNED, "12345", {name: [value] for name, value in FORM.items()})


@pytest.mark.parametrize(
    ("url", "signature", "token", "form"),
    [
        (URL, SIGNED, "12346", FORM),
        (URL + "x", SIGNED, "12345", FORM),
        (URL, SIGNED, "12345", {**FORM, "Digits": "1235"}),
        (URL, SIGNED[:-1], "12345", FORM),
        (URL, "", "12345", FORM),
        (URL, "é\ud800", "12345", FORM),
        (URL, SIGNED, "12345", {}),
    ],
)
def test_anything_else_does_not(url: str, signature: str, token: str, form: dict[str, str]) -> None:
    with pytest.raises(PhoneSignatureError) as refused:
        check_twilio(url, signature, token, form)
    assert token not in str(refused.value)
    assert not signature or signature not in str(refused.value)


@pytest.mark.parametrize(
    "signed",
    [
        "wss://a.example/phone",
        "wss://a.example/phone/",
        "wss://a.example:443/phone",
        "wss://a.example:443/phone/",
    ],
)
def test_twilios_spellings_of_one_address_fit(signed: str) -> None:
    for url in ("wss://a.example/phone", "wss://a.example:443/phone"):
        check_twilio(url, sign(signed, "t"), "t")


def test_another_port_is_another_address() -> None:
    with pytest.raises(PhoneSignatureError):
        check_twilio("wss://a.example:8443/phone", sign("wss://a.example/phone", "t"), "t")


@pytest.mark.parametrize("url", ["", "wss://[", "wss://a:b/", "\ud800"])
def test_no_address_at_all_is_refused(url: str) -> None:
    with pytest.raises(PhoneSignatureError):
        check_twilio(url, SIGNED, "t")


def test_telnyx_sends_the_token_itself() -> None:
    check_telnyx("s3cret", "s3cret")
    for wrong in ("", "s3cre", "s3cret ", "é"):
        with pytest.raises(PhoneSignatureError, match="stream_auth_token") as refused:
            check_telnyx(wrong, "s3cret")
        assert "s3cret" not in str(refused.value)


def test_genesys_own_example_fits() -> None:
    check_genesys(HEADERS, TARGET, KEY, SECRET, CREATED)
    check_genesys({**HEADERS, "host": "AudioHook.example.com"}, TARGET, KEY, SECRET, CREATED)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"signature": ""}, "missing"),
        ({"signature-input": ""}, "missing"),
        ({"signature": HEADERS["signature"].replace("sig1", "sig2")}, "missing"),
        ({"signature": "sig1=:AAA:"}, "no base64"),
        ({"signature": "sig1=:AAAA:"}, "does not fit"),
        ({"host": "evil.example"}, "does not fit"),
        ({"audiohook-session-id": "another"}, "does not fit"),
        ({"audiohook-session-id": ""}, "which is not there"),
        ({"signature-input": INPUT.replace(' "x-api-key"', "")}, "does not cover x-api-key"),
        ({"signature-input": INPUT.replace('"x-api-key"', '"host" "host"')}, "unknown here"),
        ({"signature-input": INPUT.replace('"x-api-key"', '"x-api-key";bs')}, "unknown here"),
        ({"signature-input": INPUT + ";tag=?1"}, "cannot be read"),
        ({"signature-input": INPUT.replace("hmac-sha256", "rsa")}, "algorithm"),
        ({"signature-input": INPUT.replace("VGhpc0lzQVVuaXF1ZU5vbmNl", "short")}, "nonce"),
        ({"signature-input": INPUT.replace(";created=1641013200", "")}, "created"),
        ({"signature-input": INPUT.replace("SGVsbG8s", "SGVsbG8t")}, "API key"),
    ],
)
def test_anything_else_is_not_genesys(changes: dict[str, str], says: str) -> None:
    with pytest.raises(PhoneSignatureError, match=says):
        check_genesys({**HEADERS, **changes}, TARGET, KEY, SECRET, CREATED)


@pytest.mark.parametrize(("later", "says"), [(-4, "future"), (14, "expired")])
def test_a_signature_is_good_for_seconds(later: int, says: str) -> None:
    check_genesys(HEADERS, TARGET, KEY, SECRET, CREATED + 12)
    with pytest.raises(PhoneSignatureError, match=says):
        check_genesys(HEADERS, TARGET, KEY, SECRET, CREATED + later)


def test_a_signature_may_expire_earlier() -> None:
    soon = {**HEADERS, "signature-input": INPUT.replace("3282026430", str(CREATED - 5))}
    with pytest.raises(PhoneSignatureError, match="expired"):
        check_genesys(soon, TARGET, KEY, SECRET, CREATED)


def test_another_path_or_secret_does_not_fit() -> None:
    for target, secret in (("/other", SECRET), (TARGET, b"other")):
        with pytest.raises(PhoneSignatureError, match="does not fit"):
            check_genesys(HEADERS, target, KEY, secret, CREATED)


@given(signature=st.text(), told=st.text())
def test_whatever_is_sent_is_refused_and_nothing_more(signature: str, told: str) -> None:
    headers = {**HEADERS, "signature": signature, "signature-input": told}
    with pytest.raises(PhoneSignatureError):
        check_genesys(headers, TARGET, KEY, SECRET, CREATED)
    with pytest.raises(PhoneSignatureError):
        check_twilio("wss://a.example/phone", signature, told)
