"""What the conformance run tells, and what its clients need: looked at without running any."""

import json
import re
from pathlib import Path

import pytest

from engines.ports import ChatRequest, Image, Message, TextDelta, Tool, ToolCall, ToolCallDelta
from tests.conformance.environments import CLIENTS, HERE, StockClient
from tests.conformance.model import ANSWER, STORY, deltas_of
from tests.conformance.run import Result, table


def said(*messages: Message, tools: tuple[Tool, ...] = ()) -> str:
    deltas = deltas_of(ChatRequest(messages, tools))
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def test_the_table_has_a_row_for_each_client_that_was_tried() -> None:
    first, second = CLIENTS[:2]
    shown = table([Result(first.name, "image", True), Result(second.name, "tool call", False)])
    rows = shown.splitlines()
    assert len(rows) == 4
    assert first.title in rows[2]
    assert "ok" in rows[2]
    assert "FAIL" in rows[3]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_package_of_a_client_is_pinned(client: StockClient) -> None:
    assert (HERE / client.script).is_file()
    if client.script.endswith(".mjs"):
        lock = json.loads((HERE / "package-lock.json").read_text())
        packages = {name: each for name, each in lock["packages"].items() if name}
        assert packages["node_modules/@openai/agents-realtime"]["version"] == client.version
        assert all(each["integrity"] for each in packages.values())
        return
    lines = (HERE / f"{client.name}.txt").read_text().splitlines()
    pins = [line for line in lines if line[:1] != "#"]
    assert f"{client.name}=={client.version}" in pins
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_a_client_gets_nothing_of_our_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")
    client = StockClient("x", "x.py", "1", folder=tmp_path)
    command, variables = client.command()
    assert command[0] == str(tmp_path / "bin" / "python")
    assert "PYTHONPATH" not in variables


def test_the_model_does_as_it_is_asked() -> None:
    system, weather = Message("system", "Be brief."), Message("user", "What is the weather?")
    assert said(system, Message("user", "Hello.")) == ANSWER
    assert said(system, Message("user", "Tell me a long story.")) == STORY
    picture = Image("data:image/png;base64,AAAA")
    assert "picture" in said(Message("user", "", images=(picture,)))
    tools = (Tool("a"), Tool("b"))
    called = deltas_of(ChatRequest((system, weather), tools))
    assert [call.name for call in called if isinstance(call, ToolCallDelta)] == ["a", "b"]
    asked = Message("assistant", "", (ToolCall("1", "a", "{}"), ToolCall("2", "b", "{}")))
    results = (Message("tool", "rain", tool_call_id="1"), Message("tool", "wind", tool_call_id="2"))
    assert said(system, weather, asked, *results, tools=tools) == "The tools say rain and wind."
