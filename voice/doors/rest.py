"""The plain HTTP doors: is it alive, is it ready, what does it count, what models are there; and
where files go in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

import clients
from voice.doors.client_secrets import PATH as SECRETS
from voice.doors.embeddings import PATH as EMBEDDINGS
from voice.doors.embeddings import embeddings
from voice.doors.handshake import PATH as CALLS
from voice.doors.models import models
from voice.doors.phone import PATHS as PHONE
from voice.doors.refusals import Answer
from voice.doors.speech import PATH as SPEECH
from voice.doors.speech import speech
from voice.doors.transcriptions import PATH as TRANSCRIPTIONS
from voice.doors.transcriptions import transcriptions
from voice.house import House

PAGE: Final = Path(clients.__file__).parent / "browser"
API: Final = (
    f"GET /v1/models, POST {SPEECH}, POST {TRANSCRIPTIONS}, POST {EMBEDDINGS}, POST {SECRETS},"
    f" WebSocket {CALLS}"
)
"""What there is of OpenAI's API, for who asks for anything else of it."""


def routes(house: House) -> list[BaseRoute]:
    """The routes of this door."""

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

    return [
        Route("/health", _health),
        Route("/ready", ready),
        Route("/metrics", metrics),
        Route("/v1/models", models(house)),
        Route("/v1/models/{model:path}", models(house)),
        Route(SPEECH, speech(house), methods=["POST"]),
        Route(TRANSCRIPTIONS, transcriptions(house), methods=["POST"]),
        Route(EMBEDDINGS, embeddings(house), methods=["POST"]),
        Route("/v1/audio/translations", _no_translations, methods=["POST"]),
        *(Route(path, _call_for_websocket, methods=["GET", "POST"]) for path in (CALLS, *PHONE)),
        Mount("/v1", _no_such_door),
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
        "voices": house.voices,
        "calls": admission.calls,
        "slots": slots,
        "kept": admission.kept,
        "waiting": admission.waiting,
        "files": house.files.count,
        "strain": house.strain.name.lower(),
    }


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _page(_request: Request) -> Response:
    return FileResponse(PAGE / "index.html")


async def _no_translations(_request: Request) -> Response:
    told = "No engine of this server translates: transcribe, and let a language model translate."
    return Answer(404, "translations_unavailable", told).response()


async def _call_for_websocket(_request: Request) -> Response:
    told = "This is a WebSocket: call it by ws://, or by wss:// where TLS is put before the server."
    refusal = Answer(426, "upgrade_required", told)
    answer = refusal.response()
    answer.headers.update({"Upgrade": "websocket", "Connection": "Upgrade"})
    return answer


async def _no_such_door(scope: Scope, receive: Receive, send: Send) -> None:
    """Whatever asks, by any method or for a WebSocket."""
    told = f"There is no {scope.get('method', 'WebSocket')} {scope['path']} here. There are: {API}."
    await Answer(404, "unknown_url", told).response()(scope, receive, send)
