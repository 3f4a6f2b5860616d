"""What pypdf raises is told as one thing; see test_documents.py for the rest."""

from typing import Any

import pytest

pytest.importorskip("pypdf")

from pipelines.memory.pdf import pages


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7\n", b"%PDF-1.7\ntrailer <</Root 1 0 R>>\n%%EOF"])
def test_what_is_no_pdf_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        list(pages(data))


@pytest.mark.parametrize("fault", [AssertionError(), NotImplementedError("no such filter")])
def test_whatever_pypdf_trips_over_is_a_value_error(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise fault

    monkeypatch.setattr("pipelines.memory.pdf.PdfReader", fails)
    with pytest.raises(ValueError, match=str(fault) or type(fault).__name__):
        list(pages(b"%PDF-1.7"))
