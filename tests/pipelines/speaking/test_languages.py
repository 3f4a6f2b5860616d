"""Tags of languages."""

import pytest

from pipelines.speaking.languages import primary, writes_day_first


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("en-GB", "en"),
        ("pt_BR", "pt"),
        ("zh-Hans-CN", "zh"),
        ("DE", "de"),
    ],
)
def test_the_language_of_a_tag(tag: str | None, language: str) -> None:
    assert primary(tag) == language


@pytest.mark.parametrize(
    ("tag", "day_first"),
    [(None, False), ("en", False), ("en-US", False), ("en-GB", True), ("en_AU", True)],
)
def test_who_writes_the_day_first(tag: str | None, day_first: bool) -> None:
    assert writes_day_first(tag) is day_first
