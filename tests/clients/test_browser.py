"""The page, in a headless Chromium whose microphone plays real speech, against a real server."""

import asyncio
import shutil
import sys
from contextlib import asynccontextmanager

import numpy as np
import pytest
import soundfile
from playwright.async_api import Page, async_playwright, expect
from websockets.asyncio.client import connect

from engines.models import ModelStore

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium"),
]


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """A sentence, and then silence for long enough to be answered: Chromium plays it in a loop."""
    clip = next(iter(sorted(ModelStore().path("speech").glob("*.wav"))))
    samples, rate = soundfile.read(clip, dtype="int16")
    path = tmp_path_factory.mktemp("microphone") / "speech.wav"
    soundfile.write(path, np.concatenate([samples, np.zeros(rate * 8, np.int16)]), rate)
    return path


@asynccontextmanager
async def serving(*settings):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "voice.cli", "serve", "--scripted", "--port", "0", *settings),
        *("--set", "server.drain_s=0"),  # the page is still open when a test ends
        stdout=asyncio.subprocess.PIPE,
    )
    async for line in process.stdout:
        if line.startswith(b"READY"):
            break
    yield line.split()[1].decode()
    process.terminate()
    await process.wait()


@pytest.fixture
async def server():
    async with serving() as url:
        yield url


@pytest.fixture
async def keyed_server():
    async with serving("--set", "server.api_keys=right") as url:
        yield url


@pytest.fixture
async def page(speech):
    async with async_playwright() as playwright:
        flags = [*FLAGS, f"--use-file-for-fake-audio-capture={speech}"]
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = await browser.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda said: said.type == "error" and page.problems.append(said.text))
        yield page
        await browser.close()


async def test_speech_goes_in_and_audio_and_captions_come_out(page: Page, server):
    await page.goto(server)
    await page.click("#orb")
    await expect(page.locator("#captions [data-role=user]")).to_contain_text("please tell me")
    agent = page.locator("#captions [data-role=agent]").first
    await expect(agent).to_contain_text("The scripted model answers", timeout=20_000)
    await expect(page.locator("body")).to_have_attribute("data-state", "speaking")
    await page.wait_for_function("Number(document.body.dataset.playedMs) > 500")
    await expect(page.locator("#turns li")).to_have_count(1)
    await expect(page.locator("#turns li")).to_contain_text("spoken")
    assert page.problems == []


async def test_the_page_says_which_models_answer(page: Page, server):
    await page.goto(server)
    await expect(page.locator("#server")).to_have_text(
        "scripted hears, scripted answers, scripted speaks"
    )
    await expect(page.locator("#demonstration")).to_be_hidden()
    assert page.problems == []


async def test_who_finds_all_calls_taken_is_told_so(page: Page):
    async with serving("--set", "admission.max_calls=1") as url:
        async with connect(url.replace("http", "ws") + "/v1/realtime", proxy=None):
            await page.goto(url)
            await page.click("#orb")
            await expect(page.locator("#notice")).to_contain_text("The one call is taken.")
            await expect(page.locator("body")).to_have_attribute("data-state", "idle")
        assert page.problems == []
        await page.click("#orb")
        await expect(page.locator("body")).to_have_attribute("data-state", "hearing")


async def test_a_model_for_show_is_called_that(page: Page, server):
    async def small(route):
        await route.fulfill(json={"status": "ready", "model": "antiphon/moonshine+smollm2+hibari"})

    await page.route("**/ready", small)
    await page.goto(server)
    await expect(page.locator("#server")).to_contain_text("smollm2 answers")
    await expect(page.locator("#demonstration")).to_contain_text("demonstration model")
    assert page.problems == []


async def test_voices_that_the_server_knows_are_chosen_from(page: Page, server):
    async def several(route):
        await route.fulfill(json={"model": "antiphon/a+b+c", "voices": ["tara", "leo"]})

    await page.route("**/ready", several)
    await page.goto(server)
    voice = page.locator("select#voice")
    await expect(voice.locator("option")).to_have_text(["the server’s own", "tara", "leo"])
    await voice.select_option("leo")
    assert page.problems == []


async def test_who_is_not_heard_sees_an_orb_that_does_not_listen(page: Page, server):
    tone = "getComputedStyle(document.body).getPropertyValue('--tone')"
    await page.goto(server)
    refuse = "async () => { throw new Error('none is here') }"
    await page.evaluate(f"void (navigator.mediaDevices.getUserMedia = {refuse})")
    idle = await page.evaluate(tone)
    await page.click("#orb")
    await expect(page.locator("#notice")).to_have_text(
        "No microphone: none is here. You can write."
    )
    await expect(page.locator("body")).to_have_attribute("data-state", "listening")
    assert await page.evaluate(tone) == idle
    assert page.problems == []


async def test_a_bar_that_is_longer_than_the_scale_makes_a_larger_scale(page: Page):
    async with serving("--set", "llm.start_delay_ms=2000") as url:
        await page.goto(url)
        await page.fill("#text", "Hello?")
        await page.press("#text", "Enter")
        turn = page.locator("#turns li")
        await expect(turn).to_contain_text("written")
        assert await turn.locator(".bar").get_attribute("style") == "width: 100%;"
        await page.keyboard.press("Escape")
    assert page.problems == []


async def test_a_server_that_is_stopped_says_so_in_words(page: Page):
    async with serving() as url:
        await page.goto(url)
        await page.click("#orb")
        await expect(page.locator("#hint")).to_have_text("Press the circle to mute the microphone")
    await expect(page.locator("#notice")).to_have_text("The server was stopped.")
    await expect(page.locator("#status")).to_have_text("Start talking")


async def test_escape_silences_the_agent_and_what_was_not_heard_is_cut(page: Page, server):
    await page.goto(server)
    await page.fill("#text", "Hello?")
    await page.press("#text", "Enter")
    await expect(page.locator("body")).to_have_attribute("data-state", "speaking")
    await page.keyboard.press("Escape")
    await expect(page.locator("body")).not_to_have_attribute("data-state", "speaking")
    agent = page.locator("#captions [data-role=agent]").first
    await expect(agent).to_have_attribute("data-interrupted", "true")
    await expect(page.locator("#events [data-type='conversation.item.truncated']")).to_have_count(1)
    assert page.problems == []


async def test_who_writes_is_not_told_to_talk_and_may_open_the_microphone(page: Page, server):
    await page.goto(server)
    await page.fill("#text", "Hello?")
    await page.press("#text", "Enter")
    status, orb = page.locator("#status"), page.locator("#orb")
    await expect(status).to_have_text("Speaking – Esc to interrupt")
    await expect(page.locator("#mute")).to_be_hidden()
    await expect(orb).to_have_attribute("aria-label", "Start talking")
    await page.click("#orb")
    await expect(page.locator("#captions [data-role=user]").nth(1)).to_contain_text(
        "please tell me", timeout=20_000
    )
    await page.click("#mute")
    await expect(page.locator("#mute")).to_have_text("Unmute")
    style = "getComputedStyle(document.querySelector('#mute'))"
    ink = await page.evaluate("getComputedStyle(document.body).color")
    assert (
        await page.evaluate(f"{style}.backgroundColor")
        == ink
        != await page.evaluate(f"{style}.color")
    )
    await expect(status).to_have_text("Speaking – Esc to interrupt", timeout=20_000)
    await page.click("#mute")
    await expect(page.locator("#mute")).to_have_text("Mute")
    assert page.problems == []


async def test_who_is_refused_is_asked_for_a_key_and_not_to_talk(page: Page, keyed_server):
    await page.goto(keyed_server)
    await page.click("#orb")
    await expect(page.locator("#key-form")).to_contain_text("asks for an API key")
    await expect(page.locator("#notice")).to_be_hidden()
    await page.fill("#key", "wrong")
    await page.press("#key", "Enter")
    await expect(page.locator("#notice")).to_have_text("The server refused this API key.")
    await expect(page.locator("#status")).to_be_hidden()
    await page.fill("#key", "right")
    await page.press("#key", "Enter")
    await expect(page.locator("#mute")).to_be_visible()
    await expect(page.locator("#status")).to_be_visible()
