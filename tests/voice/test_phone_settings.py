"""The section [phone]: what it may say, and who may come by AudioSocket."""

import pytest

from voice.config import ConfigError, load
from voice.phone_settings import PhoneSettings


def test_nothing_said_takes_calls_by_key_and_none_by_audiosocket() -> None:
    phone = load().phone
    assert phone.audiosocket_port is None
    assert (phone.twilio_token, phone.telnyx_token, phone.genesys_secret) == ("", "", "")
    assert phone.digits_interrupt


def test_secrets_come_by_the_environment_and_are_shown_to_nobody() -> None:
    config = load(environment={"VOICE_PHONE_TWILIO_TOKEN": "s3cret"})
    assert config.phone.twilio_token == "s3cret"
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("phone.audiosocket_from=10.0.0.1/8", "phone.audiosocket_from: 10.0.0.1/8"),
        ("phone.audiosocket_from=asterisk", "phone.audiosocket_from"),
        ("phone.audiosocket_port=70000", "phone.audiosocket_port"),
        ("phone.genesys_secret=c2VjcmV0", "set both, or neither"),
        ("phone.genesys_key=abc", "set both, or neither"),
        ("phone.tenant=nobody", "phone.tenant: there is no tenant 'nobody'"),
        ("phone.drain_s=-1", "phone.drain_s"),
        ("phone.gretting=hi", "Did you mean phone.greeting"),
    ],
)
def test_what_cannot_be_is_told(setting: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load(settings=[setting])


def test_a_secret_that_is_no_base64_is_told_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="base64") as caught:
        load(settings=["phone.genesys_key=k", "phone.genesys_secret=no base64!"])
    assert "no base64!" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "let_in"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("fe80::1%eth0", False),
        ("", False),
        ("somewhere", False),
    ],
)
def test_audiosocket_is_taken_from_where_it_is_said(address: str, let_in: bool) -> None:
    phone = PhoneSettings(audiosocket_from=("127.0.0.0/8", "::1", "10.1.0.0/16"))
    assert phone.lets_in(address) is let_in
