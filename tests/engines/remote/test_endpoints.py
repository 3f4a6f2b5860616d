"""Addresses: what can be one, who is there, and what is in the way."""

import socket

import pytest

from engines.remote.endpoints import fault_of, is_endpoint, is_listening, obstacle


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("ipc:///run/antiphon/tts", ""),
        (f"ipc:///{'x' * 106}", ""),
        (f"ipc:///{'x' * 107}", "its path has 108 bytes, the most is 107"),
        ("ipc:///" + "é" * 54, "its path has 109 bytes"),
        ("ipc://tts", "write the whole path"),
        ("ipc://", "write the whole path"),
        ("ipc://@tts", "write the whole path"),
    ],
)
def test_a_path_that_is_no_sockets_is_told(endpoint, said):
    assert is_endpoint(endpoint)
    assert fault_of(endpoint).startswith(said)
    assert bool(fault_of(endpoint)) == bool(said)


def test_a_socket_that_was_left_behind_is_in_nobodys_way(tmp_path_factory):
    path = tmp_path_factory.mktemp("e") / "0"
    endpoint = f"ipc://{path}"
    assert not is_listening(endpoint)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert is_listening(endpoint)
        assert "another process" in obstacle(endpoint)
    assert path.is_socket()
    assert obstacle(endpoint) == ""


def test_what_is_no_socket_is_in_the_way(tmp_path):
    assert "no socket" in obstacle(f"ipc://{tmp_path}")
    assert obstacle("tcp://127.0.0.1:5555") == ""
