"""Where an engine process of its own can be found: ``ipc://`` and the path of a UNIX socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

SCHEME: Final = "ipc://"

_LONGEST_BYTES: Final = 107
"""The kernel's limit (unix(7)), less the zero at the end."""


def is_endpoint(text: str) -> bool:
    return text.startswith(SCHEME)


def fault_of(endpoint: str) -> str:
    """Why it can be nobody's address, and what to do; empty where it can."""
    path = endpoint.removeprefix(SCHEME)
    size = len(os.fsencode(path))
    if not path.startswith("/"):
        return "write the whole path of a socket, as in ipc:///run/antiphon/tts"
    if size > _LONGEST_BYTES:
        return f"its path has {size} bytes, the most is {_LONGEST_BYTES}: choose a shorter one"
    return ""


def is_listening(endpoint: str) -> bool:
    """Whether a process takes connections there."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(endpoint.removeprefix(SCHEME))
        except OSError:
            return False
    return True


def obstacle(endpoint: str) -> str:
    """Why nobody should listen there: ZeroMQ takes the place of whatever is. Empty where nothing
    is in the way; a socket that was left behind is not."""
    if not is_endpoint(endpoint):
        return ""
    path = Path(endpoint.removeprefix(SCHEME))
    if path.exists() and not path.is_socket():
        return "there is a file that is no socket"
    return "another process listens there already" if is_listening(endpoint) else ""
