"""The timeline: each lane says what went on, and the page needs nothing and nobody else."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.conversation.events import (
    AcceptTranscript,
    AudioCommitted,
    CommitTurn,
    DiscardTurn,
    DropReply,
    OpenTurn,
    PrepareReply,
    ReplyEnded,
    ResumeReply,
    SayLine,
    StartReply,
    Transcribe,
    TranscriptArrived,
    WindowHeard,
)
from pipelines.conversation.reply import Stages
from tests.voice.recorded import CLOCK_MS, recorded
from voice.journal import Said, Staged, Step
from voice.replay import differences
from voice.timeline import Row, page, weave

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def bars(row: Row) -> list[tuple[float, float, str]]:
    return [(bar.start, bar.end, bar.kind) for bar in row.bars]


def at(milliseconds: int, event: Any, *commands: Any) -> Step:
    return Step(int(CLOCK_MS) + milliseconds, event, commands)


def test_turns_begin_before_they_are_known_and_end_with_their_words() -> None:
    turns = weave(recorded()).turns
    assert bars(turns[1]) == [(320, 704, "preroll"), (704, 2112, "speaking")]
    assert {bar.label for bar in turns[1].bars} == {"what is <b>this</b>?"}
    assert bars(turns[2])[1:] == [
        (3296, 3424, "tentative"),
        (3424, 4384, "speaking"),
        (4384, 5024, "failed"),
    ]


def test_replies_go_through_their_states() -> None:
    replies = weave(recorded()).replies
    assert [kind for *_, kind in bars(replies[1])] == [
        "held", "out", "paused", "out", "paused", "stopped",
    ]  # fmt: skip
    assert replies[1].bars[1].label == "It is a long story, and there is no end to it."
    assert bars(replies[2]) == [
        (5856, 6176, "held"),
        (6176, 6336, "out"),
        (6336, 6936, "ending"),
    ]


def test_takes_end_with_words_with_a_failure_or_unwanted() -> None:
    timeline = weave(
        recorded(
            [
                at(0, WindowHeard(1.0), OpenTurn(1, 0), Transcribe(1, 1, "partial")),
                at(50, WindowHeard(1.0), Transcribe(1, 2, "ahead"), DiscardTurn(1)),
                at(90, TranscriptArrived(1, "yes")),
                at(200, TranscriptArrived(1, "again")),
            ]
        )
    )
    assert bars(timeline.takes[1]) == [(0, 90, "partial")]
    assert timeline.takes[1].bars[0].label == "yes"
    assert bars(timeline.takes[2]) == [(50, 200, "ahead")]  # never over
    assert bars(timeline.turns[1])[-1] == (0, 50, "discarded")
    assert [bar.kind for bar in weave(recorded()).takes[3].bars] == ["failed"]


def test_the_agent_is_heard_until_it_is_cut_off() -> None:
    heard = weave(recorded()).heard
    assert [(bar.start, bar.end, bar.kind) for bar in heard] == [
        (2272, 3272, "heard"),
        (3272, 3424, "cut"),
        (6336, 6936, "heard"),
    ]
    assert heard[1].label == " and there is no end to it."


def test_a_turn_that_the_client_closes_has_no_beginning() -> None:
    timeline = weave(
        recorded(
            [
                at(10, AudioCommitted(), CommitTurn(1, 500)),
                at(300, TranscriptArrived(1, "hello"), AcceptTranscript(1, "hello")),
            ]
        )
    )
    assert bars(timeline.turns[1]) == [(10, 300, "transcribing")]
    assert timeline.turns[1].bars[0].label == "hello"
    assert [mark.title for mark in timeline.marks] == ["audio committed"]


def test_what_becomes_of_a_reply_that_nobody_hears() -> None:
    timeline = weave(
        recorded(
            [
                at(0, WindowHeard(0.0), PrepareReply(1, "so")),
                at(100, WindowHeard(0.9), DropReply(1)),
                at(100, ReplyEnded(1)),
                at(200, WindowHeard(0.0), SayLine(2, "farewell")),
                at(250, ReplyEnded(9)),
                Said(CLOCK_MS + 300, "ReplyFinished", {"epoch": 2, "code": "x", "message": "y"}),
                at(400, WindowHeard(0.0), StartReply(3)),
                at(500, WindowHeard(0.0), ResumeReply(3)),
            ]
        )
    )
    assert bars(timeline.replies[1]) == [(0, 100, "held"), (100, 100, "dropped")]
    [failed] = timeline.replies[2].bars
    assert (failed.kind, failed.detail) == ("failed", "x: y")
    assert bars(timeline.replies[3]) == [(400, 500, "out"), (500, 500, "out")][:1]


def test_stages_are_named_after_their_reply() -> None:
    [row] = weave(recorded()).stages
    assert row.name == "reply 2"
    assert [(bar.kind, bar.label) for bar in row.bars] == [
        ("model", "100"), ("phrase", "50"), ("voice", "50"),
    ]  # fmt: skip
    began = Staged(CLOCK_MS, Stages(CLOCK_MS / 1000))
    assert weave(recorded([began])).stages == []


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script id="call" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_holds_the_whole_call_and_nothing_from_elsewhere() -> None:
    call = recorded()
    html = page(call, differences(call))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|src=|@import|url\(", html)
    data = data_of(html)
    assert (data["call"], data["differ"], data["closed"]) == ("sess_story", 0, True)
    assert len(data["windows"][0]) == sum(isinstance(s.event, WindowHeard) for s in call.steps)
    assert "<b>this</b>" not in html
    assert data["lanes"]["turns"][0][0]["bars"][0]["label"] == "what is <b>this</b>?"


def test_what_overlaps_lies_in_tracks_of_its_own() -> None:
    call = recorded(
        [
            at(0, WindowHeard(1.0), Transcribe(1, 1, "partial"), Transcribe(1, 2, "ahead")),
            at(50, TranscriptArrived(1, "a")),
            at(60, WindowHeard(1.0), Transcribe(1, 3, "final")),
            at(90, TranscriptArrived(2, "b")),
            at(99, TranscriptArrived(3, "c")),
        ]
    )
    tracks = data_of(page(call, []))["lanes"]["takes"]
    assert [[row["name"][:6] for row in track] for track in tracks] == [
        ["take 1", "take 3"],
        ["take 2"],
    ]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium")
async def test_a_browser_shows_it(tmp_path: Path) -> None:
    from playwright.async_api import async_playwright, expect

    call = recorded()
    file = tmp_path / "call.html"
    file.write_text(page(replace(call, entries=call.entries[:-1]), differences(call)), "utf-8")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        sheet = await browser.new_page(viewport={"width": 1200, "height": 800})
        problems: list[str] = []
        asked: list[str] = []
        sheet.on("pageerror", lambda error: problems.append(str(error)))
        sheet.on("console", lambda said: problems.append(said.text))
        sheet.on("request", lambda request: asked.append(request.url))
        await sheet.goto(file.as_uri())
        await expect(sheet.locator("h1")).to_have_text("Call sess_story")
        about = sheet.locator("#about")
        await expect(about).to_contain_text("decides the same today")
        await expect(about).to_contain_text("ends before the call did")
        await expect(sheet.locator("svg text", has_text="It is a long story")).not_to_have_count(0)
        await sheet.locator("rect[fill='var(--paused)']").first.hover()
        await expect(sheet.locator("#tip")).to_contain_text("reply 1 · paused")
        first = sheet.locator("svg .axis").nth(1)
        before = await first.text_content()
        await sheet.locator("svg").press("+")
        await expect(first).not_to_have_text(before or "")
        await sheet.locator("#filter").fill("stop reply")
        shown = sheet.locator("tbody tr:visible")
        await expect(shown).to_have_count(1)
        await shown.click()
        await expect(sheet.locator("rect[fill='var(--bad)']").first).to_be_visible()
        await browser.close()
    assert problems == []
    assert asked == [file.as_uri()]
