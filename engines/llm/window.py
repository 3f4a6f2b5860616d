"""What of a long dialogue a model with a short context still gets to read."""

from __future__ import annotations

from typing import Final

from engines.ports import Message

_BYTES_PER_TOKEN: Final = 3
"""Fewer than English has (four and more), so that the estimate rather errs to the safe side."""

_TOKENS_PER_MESSAGE: Final = 6
"""For the marks that a chat template puts around each."""


def estimated_tokens(message: Message) -> int:
    """Roughly what ``message`` costs, without asking the model."""
    return len(message.content.encode(errors="replace")) // _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE


def recent(messages: tuple[Message, ...], room: int) -> tuple[Message, ...]:
    """The system message and as many of the latest turns as fit into ``room`` tokens.

    A turn is a user's message with all that follows up to the next; the last one always
    stays. Turns are left out by the half of the room at a time: if it were one at a time, the
    prompt would begin differently in each turn, and nothing of it could be taken from a cache.
    """
    head = messages[:1] if messages and messages[0].role == "system" else ()
    body = messages[len(head) :]
    room -= sum(map(estimated_tokens, head))
    excess = sum(map(estimated_tokens, body)) - room
    if excess <= 0:
        return messages
    step = max(room // 2, 1)
    to_drop = -(-excess // step) * step
    last_turn = max((i for i, m in enumerate(body) if m.role == "user"), default=0)
    start = 0
    while start < last_turn and (to_drop > 0 or body[start].role != "user"):
        to_drop -= estimated_tokens(body[start])
        start += 1
    return (*head, *body[start:])
