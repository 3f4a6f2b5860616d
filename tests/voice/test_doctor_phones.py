"""What the doctor tells of calls by phone."""

import pytest

from voice.config import load
from voice.doctor_phones import Phones, phones_of
from voice.wire.phone_wires import WIRES

TOKEN = "0123456789abcdef" * 2


def look(*settings: str) -> Phones:
    phones = phones_of(load(settings=settings))
    assert phones is not None
    return phones


def wire(phones: Phones, name: str) -> tuple[str, str]:
    [found] = [wire for wire in phones.wires if wire.name == name]
    return found.tell, found.who


def test_where_nothing_is_set_nothing_is_told() -> None:
    assert phones_of(load(settings=("server.api_keys=k",))) is None


def test_each_wire_is_told_where_to_go() -> None:
    phones = look("phone.greeting=Hello.", "phone.url=wss://voice.example/")
    assert [wire.name for wire in phones.wires] == list(WIRES)
    for each in phones.wires:
        assert f"wss://voice.example/phone/{each.name}" in each.tell
        assert (each.who, bool(each.audio)) == ("anybody", True)
    assert phones.doubts == ()


def test_who_may_call_is_told_and_no_secret() -> None:
    phones = look(
        f"phone.twilio_token={TOKEN}",
        "phone.telnyx_token=hush",
        "phone.url=wss://voice.example",
        "server.api_keys=hush",
    )
    assert wire(phones, "twilio") == (
        '<Connect><Stream url="wss://voice.example/phone/twilio"/></Connect>',
        "whoever proves to be twilio",
    )
    assert wire(phones, "telnyx")[1] == "whoever proves to be telnyx"
    tell, who = wire(phones, "asterisk")
    assert (tell.endswith("/phone/asterisk/KEY"), who) == (True, "who has an API key")
    assert "hush" not in repr(phones)
    assert TOKEN not in repr(phones)


def test_audiosocket_is_told_of_where_it_listens() -> None:
    phones = look("phone.audiosocket_port=9092")
    assert wire(phones, "audiosocket") == (
        "AudioSocket(UUID,127.0.0.1:9092)",
        "from 127.0.0.0/8, ::1",
    )
    assert phones.doubts == ()


@pytest.mark.parametrize(
    ("settings", "doubt"),
    [
        (["phone.url=https://voice.example"], "wss://voice.example"),
        (["phone.url=wss://voice.example/phone"], "without a path"),
        (["phone.url=voice.example"], "phone.url"),
        ([f"phone.twilio_token={TOKEN}"], "set it where a proxy changes the host"),
        (["phone.twilio_token=AC1", "phone.url=wss://a.example"], "phone.twilio_token"),
        (["phone.audiosocket_port=1", "phone.audiosocket_from="], "lets in nobody"),
        (["phone.audiosocket_port=1", "phone.audiosocket_host=0.0.0.0"], "lets in nobody"),
        (["phone.audiosocket_port=1", "phone.audiosocket_from=10.0.0.0/8"], "nobody else"),
        (
            [
                "phone.audiosocket_port=1",
                "phone.audiosocket_host=0.0.0.0",
                "phone.audiosocket_from=0.0.0.0/0",
            ],
            "the whole network",
        ),
    ],
)
def test_what_looks_wrong_is_told(settings: list[str], doubt: str) -> None:
    [told] = look(*settings).doubts
    assert doubt in told
