"""The embedded chat model: what this side of llama.cpp does, and (marked) the real thing."""

import asyncio
import logging
import os
import queue
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from engines.llm import smollm2 as plugin
from engines.llm.smollm2 import Options
from engines.models import ModelStore
from engines.ports import ChatRequest, EngineError, Message, Priority, TextDelta, Usage

SYSTEM = Message("system", "You are a friendly voice assistant. Answer in one short sentence.")


def user(text):
    return Message("user", text)


def piece(text=None, finish=None, **more):
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}], **more}


COUNTS = {
    "prompt_tokens": 9,
    "completion_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 4},
}
USAGE = {"choices": [], "usage": COUNTS}
ANSWER = [piece(), piece("Hel"), piece("lo."), piece(finish="stop"), USAGE]
TOO_LONG = {"error": {"code": 400, "type": "exceed_context_size_error", "message": "too long"}}


class FakeServer:
    """Stands for xllamacpp.Server. Each call plays the next script, by default ANSWER.

    A script is a list of chunks; at a threading.Event it waits; an exception is raised.
    """

    made = None

    def __init__(self, params):
        if params.model.path.endswith("broken/model.gguf"):
            raise RuntimeError("cannot load")
        self.params = params
        self.scripts = queue.SimpleQueue()
        self.bodies = []
        self.stopped = []
        self.spin_count = os.environ.get("GOMP_SPINCOUNT")
        self.called = threading.Semaphore(0)
        FakeServer.made = self

    def handle_chat_completions(self, body, callback):
        self.bodies.append(body)
        try:
            script = self.scripts.get_nowait()
        except queue.Empty:
            script = ANSWER
        self.called.release()
        for step in script:
            if isinstance(step, threading.Event):
                assert step.wait(10)
            elif isinstance(step, Exception):
                raise step
            elif callback(step):
                self.stopped.append(body)
                return


def fake_params():
    groups = {name: SimpleNamespace() for name in ("model", "cpuparams", "cpuparams_batch")}
    return SimpleNamespace(**groups)


@pytest.fixture
def llama(monkeypatch, tmp_path):
    """A folder with a model, and a fake llama.cpp to load it."""
    module = SimpleNamespace(CommonParams=fake_params, Server=FakeServer)
    monkeypatch.setitem(sys.modules, "xllamacpp", module)
    (tmp_path / "model.gguf").touch()
    return str(tmp_path)


@asynccontextmanager
async def warm(folder, **options):
    engine = plugin.create(Options(model=folder, **options), ModelStore())
    await engine.warm_up()
    server = FakeServer.made
    server.bodies.clear()
    server.called.acquire()
    try:
        yield engine, server
    finally:
        await engine.close()


async def deltas_of(engine, *messages, **request):
    async with engine.open(ChatRequest(messages, **request)) as deltas:
        return [delta async for delta in deltas]


async def error_of(engine, *messages):
    with pytest.raises(EngineError) as caught:
        await deltas_of(engine, *messages)
    return caught.value


def called(server):
    return asyncio.to_thread(server.called.acquire)


async def test_the_model_is_loaded_for_slots_and_threads_and_listens_nowhere(llama):
    async with warm(llama, slots=3, threads=3, context=512) as (_, server):
        params = server.params
    assert (params.n_parallel, params.n_ctx) == (3, 1536)
    assert (params.cpuparams_batch.n_threads, params.cpuparams.n_threads) == (3, 3)
    assert params.model.path == f"{llama}/model.gguf"
    assert params.hostnames[0].endswith(".sock")
    assert not Path(params.hostnames[0]).parent.exists()


async def test_the_environment_is_as_it_was_after_loading(llama, monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    async with warm(llama):
        assert "GOMP_SPINCOUNT" not in os.environ
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    async with warm(llama):
        assert os.environ["GOMP_SPINCOUNT"] == "7"


async def test_warm_up_says_that_this_is_a_demonstration_and_what_to_set(llama, caplog):
    async with warm(llama):
        (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "demonstration" in record.message
    assert 'engine = "openai"' in record.message


async def test_an_answer_comes_as_text_and_usage(llama):
    async with warm(llama) as (engine, _):
        *text, usage = await deltas_of(engine, SYSTEM, user("Hi"))
    assert "".join(delta.text for delta in text) == "Hello."
    assert usage == Usage(9, 2, 4, "stop")


async def test_what_has_piled_up_comes_as_one_delta(llama):
    async with warm(llama) as (engine, server):
        rest = threading.Event()
        server.scripts.put([piece("a"), rest, *[piece("b")] * 50, piece(finish="stop")])
        async with engine.open(ChatRequest((user("Hi"),))) as deltas:
            assert await anext(deltas) == TextDelta("a")
            rest.set()
            await asyncio.wait(list(engine._answers.values()))
            assert await anext(deltas) == TextDelta("b" * 50)


async def test_what_the_request_leaves_open_is_as_the_options_have_it(llama):
    async with warm(llama, max_tokens=7, temperature=0.9) as (engine, server):
        await deltas_of(engine, user("Hi"), Message("assistant", ""))
        await deltas_of(engine, user("Hi"), max_tokens=3, temperature=0.0)
    first, second = server.bodies
    assert (first["max_tokens"], first["temperature"]) == (7, 0.9)
    assert (second["max_tokens"], second["temperature"]) == (3, 0.0)
    assert first["messages"] == [{"role": "user", "content": "Hi"}]


async def test_leaving_stops_the_writing(llama):
    async with warm(llama) as (engine, server):
        rest = threading.Event()
        server.scripts.put([piece("a"), rest, piece("b"), piece("c")])
        async with engine.open(ChatRequest((user("Hi"),))) as deltas:
            assert await anext(deltas) == TextDelta("a")
        rest.set()
        await deltas_of(engine, user("Next"))
    assert [body["messages"][0]["content"] for body in server.stopped] == ["Hi"]


async def test_the_next_request_waits_until_the_slot_is_free_again(llama):
    async with warm(llama) as (engine, server):
        rest = threading.Event()
        server.scripts.put([piece("a"), rest, piece("b")])
        async with engine.open(ChatRequest((user("Hi"),))) as deltas:
            await anext(deltas)
        following = asyncio.create_task(deltas_of(engine, user("Next")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(server.bodies) == 1
        rest.set()
        assert (await following)[-1] == Usage(9, 2, 4, "stop")


async def test_what_is_left_while_it_waits_never_runs(llama):
    async with warm(llama, slots=1) as (engine, server):
        rest = threading.Event()
        server.scripts.put([piece("a"), rest, *ANSWER])
        first = asyncio.create_task(deltas_of(engine, user("First")))
        await called(server)
        async with engine.open(ChatRequest((user("Left"),))):
            await asyncio.sleep(0)
        third = asyncio.create_task(deltas_of(engine, user("Third")))
        await asyncio.sleep(0)
        rest.set()
        await asyncio.gather(first, third)
    assert [body["messages"][0]["content"] for body in server.bodies] == ["First", "Third"]


async def test_the_urgent_goes_first(llama):
    async with warm(llama, slots=1) as (engine, server):
        rest = threading.Event()
        server.scripts.put([rest, *ANSWER])
        waiting = [asyncio.create_task(deltas_of(engine, user("First")))]
        await called(server)
        for text, priority in (("Later", Priority.SPECULATIVE), ("Sooner", Priority.FINAL)):
            request = deltas_of(engine, user(text), priority=priority)
            waiting.append(asyncio.create_task(request))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        rest.set()
        await asyncio.gather(*waiting)
    order = [body["messages"][0]["content"] for body in server.bodies]
    assert order == ["First", "Sooner", "Later"]


async def test_a_prompt_may_be_evaluated_ahead_and_gives_no_text(llama):
    async with warm(llama) as (engine, server):
        assert await deltas_of(engine, user("Hi"), max_tokens=0) == [Usage(9, 2, 4, "stop")]
    assert server.bodies[0]["max_tokens"] == 0


async def test_a_prompt_is_not_evaluated_ahead_while_the_model_is_busy(llama):
    async with warm(llama) as (engine, server):
        rest = threading.Event()
        server.scripts.put([rest, *ANSWER])
        answer = asyncio.create_task(deltas_of(engine, user("First")))
        await called(server)
        skipped = await deltas_of(engine, user("Hi"), max_tokens=0)
        rest.set()
        await answer
    assert skipped == [Usage(finish_reason="skipped")]
    assert len(server.bodies) == 1


async def test_a_prompt_evaluated_ahead_gives_way_to_an_answer(llama):
    async with warm(llama) as (engine, server):
        batch = threading.Event()
        server.scripts.put([piece(), batch, piece(), piece()])
        ahead = asyncio.create_task(deltas_of(engine, user("Hi"), max_tokens=0))
        await called(server)
        answer = asyncio.create_task(deltas_of(engine, user("Hi there")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        batch.set()
        assert (await answer)[-1].finish_reason == "stop"
        assert (await ahead)[-1].finish_reason == "skipped"
    assert server.stopped == server.bodies[:1]


async def test_what_does_not_fit_is_tried_with_less_history(llama):
    history = [m for i in range(30) for m in (user(f"Question {i}?"), Message("assistant", "Yes."))]
    async with warm(llama, context=1024) as (engine, server):
        server.scripts.put([TOO_LONG])
        await deltas_of(engine, SYSTEM, *history, user("Last?"))
    tried = [body["messages"] for body in server.bodies]
    assert len(tried[1]) < len(tried[0])
    assert all(m[0]["role"] == "system" and m[-1]["content"] == "Last?" for m in tried)


async def test_a_message_that_can_never_fit_is_refused(llama):
    async with warm(llama, context=1024) as (engine, server):
        for _ in range(20):
            server.scripts.put([TOO_LONG])
        error = await error_of(engine, SYSTEM, user("word " * 9000))
    assert error.code == "bad_request"
    assert "1024 tokens" in error.message


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([{"error": {"code": 400, "message": "no"}}], "bad_request"),
        ([{"error": {"code": 500, "message": "no"}}], "failed"),
        ([ValueError("no")], "bad_request"),
        ([piece(finish="stop"), USAGE], "empty"),
        ([], "empty"),
    ],
)
async def test_what_llama_refuses_is_an_engine_error_and_the_next_works(llama, script, code):
    async with warm(llama) as (engine, server):
        server.scripts.put(script)
        assert (await error_of(engine, user("Hi"))).code == code
        assert (await deltas_of(engine, user("Hi")))[-1].finish_reason == "stop"


async def test_a_broken_model_is_unavailable(llama, tmp_path):
    (tmp_path / "broken").mkdir()
    engine = plugin.create(Options(model=str(tmp_path / "broken")), ModelStore())
    with pytest.raises(EngineError, match="cannot load"):
        await engine.warm_up()
    await engine.close()


async def test_an_engine_that_is_not_warm_is_unavailable(llama):
    engine = plugin.create(Options(model=llama), ModelStore())
    assert (await error_of(engine, user("Hi"))).code == "unavailable"
    await engine.close()


async def test_closing_ends_what_is_left(llama):
    async with warm(llama) as (engine, server):
        rest = threading.Event()
        server.scripts.put([piece("a"), rest, piece("b")])
        async with engine.open(ChatRequest((user("Hi"),))) as deltas:
            await anext(deltas)
        rest.set()
    assert len(server.stopped) == 1


# --- the real model -------------------------------------------------------------------------


@asynccontextmanager
async def real(**options):
    engine = plugin.create(Options(temperature=0.0, **options), ModelStore())
    await engine.warm_up()
    try:
        yield engine
    finally:
        await engine.close()


@pytest.mark.engine
async def test_smollm2_knows_the_capital_of_france():
    async with real() as engine:
        *text, usage = await deltas_of(engine, SYSTEM, user("What is the capital of France?"))
    assert "Paris" in "".join(delta.text for delta in text)
    assert len(text) > 3
    assert usage.finish_reason == "stop"


@pytest.mark.engine
async def test_smollm2_reads_only_what_was_said_since():
    history = [SYSTEM]
    for city in ("Rome", "Bern", "Oslo", "Lima", "Cairo"):
        history += [user(f"Have you been to {city}?"), Message("assistant", f"{city} is lovely.")]
    async with real() as engine:
        ahead = (await deltas_of(engine, *history, max_tokens=0))[-1]
        usage = (await deltas_of(engine, *history, user("And Rome?"), max_tokens=4))[-1]
        other = (await deltas_of(engine, SYSTEM, user("Who are you?"), max_tokens=4))[-1]
        again = (await deltas_of(engine, *history, user("And Bern?"), max_tokens=4))[-1]
    assert ahead.input_tokens > 100
    assert usage.input_tokens - usage.cached_tokens < 20
    assert again.input_tokens - again.cached_tokens < 20
    assert 0 < other.cached_tokens < other.input_tokens


@pytest.mark.engine
async def test_smollm2_stops_when_it_is_left_and_outlives_a_long_dialogue():
    story = user("Tell me a very long story.")
    history = [user(f"Question {i}, please?") for i in range(100)]
    async with real(context=512) as engine:
        async with engine.open(ChatRequest((SYSTEM, story), max_tokens=1000)) as deltas:
            await anext(deltas)
        async with asyncio.timeout(2):
            await deltas_of(engine, SYSTEM, story, max_tokens=2)
        assert (await deltas_of(engine, SYSTEM, *history, max_tokens=2))[-1].input_tokens < 512
