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
from voice.auth import presented_key, tenant_of
from voice.doors.refusals import Answer
from voice.house import House

PAGE: Final = Path(clients.__file__).parent / "browser"


def routes(house: House) -> list[BaseRoute]:
    """The routes of this door."""
    started = int(time.time())

    async def ready(_request: Request) -> Response:
        if house.closing:
            return JSONResponse({"status": "closing", "calls": house.calls}, 503)
        if not house.ready:
            return JSONResponse({"status": "loading"}, 503, {"Retry-After": "2"})
        return JSONResponse(_readiness(house))

    async def metrics(_request: Request) -> Response:
        return Response(
            generate_latest(house.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def models(request: Request) -> Response:
        if tenant_of(presented_key(request.headers), house.config.keys) is None:
            return Answer(401, "invalid_api_key", "Incorrect API key provided.").response()
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


def _readiness(house: House) -> dict[str, object]:
    """What a house that takes calls tells of itself."""
    admission = house.reception.admission()
    slots = {
        name: {"total": total, "leased": leased, "free": max(0, total - leased)}
        for name, total, leased in admission.slots()
    }
    return {
        "status": "ready",
        "model": house.model,
        "calls": admission.calls,
        "slots": slots,
        "kept": admission.kept,
        "waiting": admission.waiting,
        "strain": house.strain.name.lower(),
    }


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _page(_request: Request) -> Response:
    return FileResponse(PAGE / "index.html")


async def _call_for_websocket(_request: Request) -> Response:
    refusal = Answer(426, "upgrade_required", "This is a WebSocket: call it by ws://.")
    answer = refusal.response()
    answer.headers.update({"Upgrade": "websocket", "Connection": "Upgrade"})
    return answer
