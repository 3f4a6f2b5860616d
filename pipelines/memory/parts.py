"""A part of a document: what all kinds of them are taken apart into."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A paragraph and its ``place``, in words: "line 12", "page 3"; ``heading``: what it stands
    under. What is ``whole`` is not to be joined with what comes next to it."""

    text: str
    place: str
    heading: str = ""
    whole: bool = False
