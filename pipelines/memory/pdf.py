"""PDF by pypdf (BSD-3-Clause, Python alone), which is an extra."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

from pypdf import PdfReader

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of each oddity of each file


def pages(data: bytes) -> Iterator[str]:
    """The text of each page. Raises ValueError where it is no PDF, broken, or locked."""
    try:
        for page in _opened(data).pages:
            yield page.extract_text()
    except Exception as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _opened(data: bytes) -> PdfReader:
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it is locked by a password")
    return reader
