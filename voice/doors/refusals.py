"""What a caller is told who is not let in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse

from voice.admission import Reason, Refusal
from voice.wire.realtime import encode_utf8
from voice.wire.realtime_objects import RealtimeError
from voice.wire.realtime_server import RealtimeErrorEvent

POSITION_HEADER: Final = "X-Queue-Position"


_PATH: Final = re.compile(r"(?<![\w./:~…-])~?/(?!v1\b)(?:[\w.+@~-]+/)+(?=[\w.+@~-])")


def without_paths(message: str) -> str:
    """What a stranger may read of what went wrong: where files are on this machine is for the log.
    What they are called stays, so that the rest can be understood."""
    return _PATH.sub("…/", message)


@dataclass(frozen=True, slots=True)
class Answer:
    """An error of OpenAI's shape. ``retry_s``: when to try again; ``position``: the caller's
    place among those who wait, 0 where it is no matter of waiting; ``param``: what of the request
    is wrong."""

    status: int
    code: str
    message: str
    retry_s: int | None = None
    position: int = 0
    param: str | None = None

    @property
    def type(self) -> str:
        """Whose fault it is, in OpenAI's words."""
        if self.status == HTTPStatus.TOO_MANY_REQUESTS:
            return "requests"  # what there are too many of
        return "invalid_request_error" if self.status < 500 else "server_error"

    def response(self) -> JSONResponse:
        """As the HTTP answer to a request or a handshake."""
        error: dict[str, object] = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        headers = {}
        if self.retry_s is not None:
            headers["Retry-After"] = str(self.retry_s)
        if self.position:
            headers[POSITION_HEADER] = str(self.position)
            error["queue_position"] = self.position
        return JSONResponse({"error": error}, self.status, headers)

    def http(self) -> bytes:
        """As all the bytes of the HTTP answer to a handshake."""
        response = self.response()
        head = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}".encode("ascii")]
        head += [name + b": " + value for name, value in response.raw_headers]
        return b"\r\n".join([*head, b"Connection: close", b"", bytes(response.body)])

    def event(self) -> bytes:
        """As an event of the Realtime protocol."""
        return encode_utf8(RealtimeErrorEvent(RealtimeError(self.type, self.message, self.code)))


def answer_to(refusal: Refusal, most: int) -> Answer:
    """What a refusal sounds like. ``most``: the calls that the server holds."""
    position, retry_s = refusal.position, refusal.retry_s
    place = f" You would be number {position} of those who wait." if position else ""
    calls = "The one call is" if most == 1 else f"All {most} calls are"
    words = _WORDS[refusal.reason].format(most=most, calls=calls)
    message = f"{words}{place} Try again in {retry_s} s."
    return Answer(503, refusal.reason.value, message, retry_s, position)


_WORDS: Final = {
    Reason.SERVER_FULL: "{calls} taken.",
    Reason.SHARE_FULL: "All of the {most} calls that are not kept for others are taken.",
    Reason.TENANT_FULL: "All the calls are taken that this key may have at once.",
    Reason.WAITED: "{calls} taken, and none became free while you waited.",
    Reason.SETTLING: "The server has as many calls as it can bear for now.",
    Reason.OVERLOADED: "The server has all the load that it can bear.",
    Reason.CLOSING: "The server is shutting down.",
}
