"""Languages by their tags (BCP 47): "en-GB" is English, as spoken in Great Britain."""

from __future__ import annotations

ENGLISH = "en"


def primary(language: str | None) -> str:
    """The language without script and region; English, which our voices speak, for None."""
    return language.replace("_", "-").partition("-")[0].lower() if language else ENGLISH


def writes_day_first(language: str | None) -> bool:
    """Whether 3/4 is the third of April, as it is in English everywhere but in America."""
    region = (language or "").replace("_", "-").rpartition("-")[2].upper()
    return len(region) == 2 and region not in {"EN", "US", "PH"}
