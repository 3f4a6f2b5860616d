"""What people write as a server's address."""

import pytest

from clients.addresses import websocket_of


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("localhost:8080", "ws://localhost:8080/v1/realtime"),
        ("there", "ws://there/v1/realtime"),
        ("http://there:8080/v1", "ws://there:8080/v1/realtime"),
        ("https://there/v1/", "wss://there/v1/realtime"),
        ("https://there/behind/v1", "wss://there/behind/v1/realtime"),
        ("ws://[::1]:8080/?model=m", "ws://[::1]:8080/v1/realtime?model=m"),
        ("ws://there/elsewhere", "ws://there/elsewhere"),
    ],
)
def test_an_address_is_completed(written, meant):
    assert websocket_of(written).geturl() == meant


def test_another_path_may_be_the_usual_one():
    assert websocket_of("http://there:8080/v1", "/phone").geturl() == "ws://there:8080/phone"


@pytest.mark.parametrize("written", ["ftp://there/v1", "", "ws://[broken", "there:x", "there:0"])
def test_what_is_no_address_is_refused(written):
    with pytest.raises(ValueError, match=r".*"):
        websocket_of(written)
