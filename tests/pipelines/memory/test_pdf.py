"""What pypdf raises is told as one thing; see test_documents.py for the rest."""

import pytest

pytest.importorskip("pypdf")

from pipelines.memory.pdf import pages


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7\n", b"%PDF-1.7\ntrailer <</Root 1 0 R>>\n%%EOF"])
def test_what_is_no_pdf_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        list(pages(data))
