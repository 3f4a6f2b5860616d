"""Asking a model for less, while the house is strained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from engines.ports import ChatRequest, Message

BRIEFLY: Final[Mapping[str, str]] = {
    "en": "Answer in one short sentence.",
    "de": "Antworte in einem kurzen Satz.",
    "fr": "Réponds en une seule phrase courte.",
    "es": "Responde en una sola frase corta.",
    "it": "Rispondi con una sola frase breve.",
    "pt": "Responda numa única frase curta.",
    "nl": "Antwoord in één korte zin.",
}


def briefly(chat: ChatRequest, language: str | None, most_tokens: int) -> ChatRequest:
    """The same, to be answered in one sentence of at most ``most_tokens``.

    The sentence that asks for it stands with the caller's last words. Among the instructions it
    would change how every prompt begins, and a model that keeps prompts would have to read all of
    them again, just when it has no time. Where tools are offered the tokens stay as they are: half
    a call of a tool is worth nothing.
    """
    asked = BRIEFLY.get((language or "en")[:2].lower(), BRIEFLY["en"])
    limit = chat.max_tokens
    if not chat.tools:
        limit = most_tokens if limit is None else min(limit, most_tokens)
    return replace(chat, messages=_asking(chat.messages, asked), max_tokens=limit)


def _asking(messages: tuple[Message, ...], asked: str) -> tuple[Message, ...]:
    for role in ("user", "system"):
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if message.role == role:
                longer = replace(message, content=f"{message.content}\n\n({asked})")
                return (*messages[:place], longer, *messages[place + 1 :])
    return (*messages, Message("system", asked))
