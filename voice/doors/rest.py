"""The plain HTTP door: is it alive, is it ready, what does it count, what models are there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

import clients
from voice.auth import may_enter, presented_key
from voice.doors.realtime import error_response
from voice.house import House

PAGE: Final = Path(clients.__file__).parent / "browser"


def routes(house: House) -> list[BaseRoute]:
    """The routes of this door."""
    started = int(time.time())

    async def ready(_request: Request) -> Response:
        if house.ready:
            return JSONResponse({"status": "ready", "model": house.model, "calls": house.calls})
        return JSONResponse({"status": "loading"}, 503, {"Retry-After": "2"})

    async def metrics(_request: Request) -> Response:
        return Response(
            generate_latest(house.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def models(request: Request) -> Response:
        if not may_enter(presented_key(request.headers), house.config.server.api_keys):
            return error_response(401, "invalid_api_key", "Incorrect API key provided.")
        model = {
            "id": house.model,
            "object": "model",
            "created": started,
            "owned_by": "antiphon",
        }
        return JSONResponse({"object": "list", "data": [model]})

    return [
        Route("/health", _health),
        Route("/ready", ready),
        Route("/metrics", metrics),
        Route("/v1/models", models),
        Route("/v1/realtime", _call_for_websocket),
        Route("/", _page),
        Mount("/", StaticFiles(directory=PAGE)),
    ]


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _page(_request: Request) -> Response:
    return FileResponse(PAGE / "index.html")


async def _call_for_websocket(_request: Request) -> Response:
    answer = error_response(426, "upgrade_required", "This is a WebSocket: call it by ws://.")
    answer.headers.update({"Upgrade": "websocket", "Connection": "Upgrade"})
    return answer
