"""What the agent says without a model: in the caller's language, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from engines.ports import ChatRequest, Delta, TextDelta, Usage
from pipelines.conversation.events import Line

LINES: Final[Mapping[str, Mapping[Line, str]]] = {
    "en": {
        "still_there": "Are you still there?",
        "one_moment": "One moment, please.",
        "farewell": "I can't hear you any more, so I will hang up now. Goodbye.",
        "sorry": "Sorry, something went wrong. Please say that again.",
    },
    "de": {
        "still_there": "Sind Sie noch da?",
        "one_moment": "Einen Moment, bitte.",
        "farewell": "Ich höre Sie nicht mehr und lege jetzt auf. Auf Wiederhören.",
        "sorry": "Entschuldigung, da ist etwas schiefgegangen. Bitte sagen Sie das noch einmal.",
    },
    "fr": {
        "still_there": "Êtes-vous toujours là ?",
        "one_moment": "Un instant, s'il vous plaît.",
        "farewell": "Je ne vous entends plus, je vais donc raccrocher. Au revoir.",
        "sorry": "Pardon, il y a eu un problème. Pouvez-vous répéter ?",
    },
    "es": {
        "still_there": "¿Sigue ahí?",
        "one_moment": "Un momento, por favor.",
        "farewell": "Ya no le oigo, así que voy a colgar. Adiós.",
        "sorry": "Perdone, algo ha fallado. ¿Puede repetirlo?",
    },
    "it": {
        "still_there": "È ancora in linea?",
        "one_moment": "Un momento, per favore.",
        "farewell": "Non la sento più, quindi ora riaggancio. Arrivederci.",
        "sorry": "Mi scusi, qualcosa è andato storto. Può ripetere?",
    },
    "pt": {
        "still_there": "Ainda está aí?",
        "one_moment": "Um momento, por favor.",
        "farewell": "Já não o ouço, por isso vou desligar. Até à próxima.",
        "sorry": "Desculpe, algo correu mal. Pode repetir?",
    },
    "nl": {
        "still_there": "Bent u er nog?",
        "one_moment": "Een ogenblik, alstublieft.",
        "farewell": "Ik hoor u niet meer en hang nu op. Tot ziens.",
        "sorry": "Sorry, er ging iets mis. Kunt u dat herhalen?",
    },
}


def line_in(language: str | None, line: Line) -> str:
    """The words for it; English where the language is not known, or not one of these."""
    return LINES.get((language or "en")[:2].lower(), LINES["en"])[line]


class Recital:
    """A language model that knows one text by heart."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def warm_up(self) -> None:
        """There is nothing to load."""

    async def close(self) -> None:
        """There is nothing to free."""

    @asynccontextmanager
    async def open(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """Say it, whatever was asked."""
        del request
        yield self._recite()

    async def _recite(self) -> AsyncIterator[Delta]:
        yield TextDelta(self._text)
        yield Usage()
