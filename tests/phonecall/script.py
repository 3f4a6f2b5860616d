"""What is said in each call: by whom, in which recording of the model store, and when."""

from __future__ import annotations

from typing import Final

GREETING: Final = ("seven of clubs", "he might even have been made amiable himself")
"""Whoever speaks begins with a few words, since a first phrase is cut where it has more."""

QUESTION: Final = "go forward ten meters"
STORY: Final = (
    "five five",
    "and mister john dashwood had then leisure to consider how much there might be prudently in"
    " his power to do for them",
    "unless to be rather cold hearted and rather selfish is to be ill disposed",
    "had he married a more amiable woman he might have been made still more respectable than he"
    " was",
)
INTERRUPTION: Final = "go somewhere and do something"
ANSWER: Final = ("five five", "feels like these days go on forever")
KEYS: Final = "129#"
GOODBYE: Final = ("five five", "he might even have been made amiable himself")

QUESTION_MS: Final = 5_500
INTERRUPTION_MS: Final = 13_000
KEYS_MS: Final = 24_000
OVER_MS: Final = 31_000
"""When each comes, from the start of the call; the replies end before the next."""


def text_of(sentences: tuple[str, ...]) -> str:
    """As a model writes it."""
    return " ".join(f"{sentence.capitalize()}." for sentence in sentences)
