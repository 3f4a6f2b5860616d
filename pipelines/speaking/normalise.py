"""Text as a voice should get it: "$5.20" as words, and nothing that was markup.

English is complete and ours. In other languages numbers become words where num2words knows the
language and is installed (the extra ``languages``); otherwise they stay as written, which most
voices can read.
"""

from __future__ import annotations

import re
from typing import Final

from pipelines.speaking import english, foreign
from pipelines.speaking.languages import ENGLISH, primary, writes_day_first
from pipelines.speaking.markup import plain, tidy
from pipelines.speaking.unspoken import Prose

_NOT_LATIN: Final = re.compile(r"[\u0370-\u1dff\u3040-\ud7ff\uf900-\ufdff\ufe70-\ufeff]{2}")


def speakable(text: str, language: str | None = None) -> str:
    """A whole phrase (or several) as it is to be read aloud, on one line; empty where there is
    nothing to say.

    ``language`` is a tag such as "en-GB"; None stands for English, unless the script is another.
    """
    return spoken_form(Prose(language).feed(text), language, starts_line=True)


def spoken_form(prose: str, language: str | None, *, starts_line: bool) -> str:
    """The same for text without blocks of code. ``starts_line``: whether a line begins there."""
    if not prose.strip():
        return ""
    if language is None and _NOT_LATIN.search(prose):
        return tidy(plain(prose, starts_line=starts_line, code=foreign.code))
    if primary(language) != ENGLISH:
        words = plain(prose, starts_line=starts_line, code=foreign.code)
        return tidy(foreign.spoken(words, primary(language)))
    words = plain(prose, starts_line=starts_line, code=english.code)
    return tidy(english.spoken(words, day_first=writes_day_first(language)))
