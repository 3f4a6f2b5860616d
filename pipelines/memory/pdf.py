"""PDF by pypdf (BSD-3-Clause, Python alone), which is an extra."""

from __future__ import annotations

import io
from collections.abc import Iterator

from pypdf import PdfReader
from pypdf.errors import PyPdfError


def pages(data: bytes) -> Iterator[str]:
    """The text of each page. Raises ValueError where it is no PDF, or locked."""
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ValueError("it is locked by a password")
        for page in reader.pages:
            yield page.extract_text()
    except (PyPdfError, OSError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(str(error) or type(error).__name__) from error
