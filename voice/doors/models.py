"""``GET /v1/models``: the names that the server has for what hears, thinks and
speaks, and for what tells texts apart.

Clients may ask for any other name, too: there is one model of each kind.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from voice.auth import presented_key, tenant_of
from voice.doors.handshake import unknown_key
from voice.doors.refusals import Answer
from voice.house import House


def models(house: House) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of this house, for the list and, by its path, for one of it."""
    known = {
        name: {"id": name, "object": "model", "created": int(time.time()), "owned_by": "antiphon"}
        for name in house.models
    }

    async def answer(request: Request) -> Response:
        key = presented_key(request.headers)
        if tenant_of(key, house.config.keys) is None:
            return unknown_key(key).response()
        wanted = request.path_params.get("model")
        if wanted is None:
            return JSONResponse({"object": "list", "data": list(known.values())})
        if wanted in known:
            return JSONResponse(known[wanted])
        told = f"The model {wanted!r} does not exist. There are: {', '.join(known)}."
        return Answer(404, "model_not_found", told, param="model").response()

    return answer
