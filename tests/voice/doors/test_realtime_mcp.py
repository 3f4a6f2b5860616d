"""MCP servers in a call: what clients see, what the model reads, and who may be called."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai.types.realtime as sdk
import pytest
from pydantic import TypeAdapter

from engines.ports import ChatRequest, Delta, ToolCallDelta
from engines.scripted import LlmOptions, ScriptedLlm, tokens_of
from pipelines.conversation.dialogue import NO_RESULT
from tests.voice.doors.stock import plain_client, stock_call
from tests.voice.mcp.servers import tool_server
from voice.doors.realtime_mcp import MOST_ROUNDS

EVENT: TypeAdapter[Any] = TypeAdapter(sdk.RealtimeServerEvent)
SECRET = "tok-7f31c2"
WEATHER = ToolCallDelta(0, "call_1", "weather", '{"city":"Rom"}')
FUNCTION = {"type": "function", "name": "lamp", "parameters": {"type": "object"}}


class Calling(ScriptedLlm):
    """Calls tools until it has read a result, wherever that stands."""

    def script(self, request: ChatRequest) -> Iterable[Delta]:
        told = [message for message in request.messages if message.role == "tool"]
        known = [message for message in told if message.content != NO_RESULT]
        return super().script(replace(request, messages=tuple(known or request.messages)))


def calls(*deltas: ToolCallDelta, then: Iterable[Any] = tokens_of("It rains.")) -> ScriptedLlm:
    """A model that calls these tools, and then says something."""
    return Calling(LlmOptions(script=deltas, tool_script=tuple(then)))


def tool_at(url: str, **fields: Any) -> dict[str, Any]:
    tool = {"type": "mcp", "server_label": "house", "server_url": url, "authorization": SECRET}
    return {**tool, "require_approval": "never", **fields}


async def listed(client: Any, *tools: dict[str, Any], **session: Any) -> dict[str, list[str]]:
    """Name the servers, in a call in writing; the names of the tools that each has."""
    await client.update(tools=list(tools), output_modalities=["text"], **session)
    names: dict[str, list[str]] = {}
    for _ in (tool for tool in tools if tool["type"] == "mcp"):
        item = (await client.until("conversation.item.done"))["item"]
        names[item["server_label"]] = [tool["name"] for tool in item["tools"]]
    client.events.clear()
    return names


def assert_all_are_of_the_sdk(events: Iterable[dict[str, Any]]) -> None:
    for event in events:
        known = EVENT.validate_python(event)
        assert known.type == event["type"]


async def test_a_tool_is_run_here_and_its_result_is_spoken_of(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(WEATHER))
        async with server.call() as client:
            await client.update(tools=[tool_at(tools.url)])
            await client.until("conversation.item.done")
            assert client.story == [
                "session.updated",
                "conversation.item.added",
                "mcp_list_tools.in_progress",
                "mcp_list_tools.completed",
                "conversation.item.done",
            ]
            named = client.events[-1]["item"]["tools"]
            await client.send("response.create")
            response = (await client.until("response.done"))["response"]
            answer = (await client.until("response.done"))["response"]
            await client.until("rate_limits.updated")
    assert_all_are_of_the_sdk(client.events)
    assert [tool["name"] for tool in named][:2] == ["weather", "slow"]
    assert named[0]["input_schema"]["required"] == ["city"]
    (call,) = response["output"]
    assert (call["type"], call["server_label"], call["name"]) == ("mcp_call", "house", "weather")
    assert call["output"] is None
    assert answer["output"][0]["content"][0]["transcript"] == "It rains."
    kinds = [event["type"] for event in client.events]
    in_order = [
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.output_item.done",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
    ]
    assert sorted(in_order, key=kinds.index) == in_order
    done = [event["item"] for event in client.all("conversation.item.done")]
    (result,) = [item for item in done if item["type"] == "mcp_call"]
    assert (result["id"], result["output"]) == (call["id"], "rain in Rom")
    first, second = server.llm.requests
    assert "weather" in [tool.name for tool in first.tools]
    asked, told = second.messages[-2:]
    assert asked.tool_calls[0].arguments == '{"city":"Rom"}'
    assert (told.role, told.content, told.tool_call_id) == ("tool", "rain in Rom", "call_1")


async def test_the_stock_client_sees_each_event_as_its_own_class(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(WEATHER))
        async with stock_call(server) as connection:
            tool = tool_at(tools.url)
            session = {"type": "realtime", "output_modalities": ["text"], "tools": [tool]}
            await connection.session.update(session=session)
            seen, done = {}, 0
            async for event in connection:
                seen[event.type] = type(event)
                if event.type == "mcp_list_tools.completed":
                    await connection.response.create()
                done += event.type == "response.done"
                if done == 2:
                    break
    assert seen["mcp_list_tools.in_progress"] is sdk.McpListToolsInProgress
    assert seen["mcp_list_tools.completed"] is sdk.McpListToolsCompleted
    assert seen["response.mcp_call_arguments.done"] is sdk.ResponseMcpCallArgumentsDone
    assert seen["response.mcp_call.in_progress"] is sdk.ResponseMcpCallInProgress
    assert seen["response.mcp_call.completed"] is sdk.ResponseMcpCallCompleted


async def test_a_client_that_asks_for_the_reply_that_is_coming_has_it(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(WEATHER))
        async with server.call() as client:
            await listed(client, tool_at(tools.url))
            await client.send("response.create")
            await client.until("response.mcp_call.completed")
            await client.send("response.create")
            await client.until("response.done")
            await client.say("sync")
            assert len(client.all("response.created")) == 2
            assert not client.all("error")


# --- approval -------------------------------------------------------------------------------


async def approval_asked(client: Any) -> dict[str, Any]:
    await client.send("response.create")
    response = (await client.until("response.done"))["response"]
    (request,) = response["output"]
    assert request["type"] == "mcp_approval_request"
    return dict(request)


async def answer(client: Any, request: dict[str, Any], **answer: Any) -> None:
    item = {"type": "mcp_approval_response", "approval_request_id": request["id"], **answer}
    await client.send("conversation.item.create", item=item, previous_item_id=request["id"])


async def test_a_tool_that_is_approved_of_is_run(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(WEATHER))
        async with server.call() as client:
            await listed(client, tool_at(tools.url, require_approval=None))
            request = await approval_asked(client)
            assert tools.headers[-1][":method"] == "POST"
            called = len(tools.headers)
            await answer(client, request, approve=True)
            await client.until("response.mcp_call.completed")
            item = (await client.until("conversation.item.done"))["item"]
            await client.until("response.done")
            again = await client.refusal(
                "conversation.item.create",
                item={"type": "mcp_approval_response", "approval_request_id": request["id"],
                      "approve": True},
            )  # fmt: skip
            await client.send("conversation.item.retrieve", item_id=request["id"])
            kept = (await client.until("conversation.item.retrieved"))["item"]
    assert_all_are_of_the_sdk(client.events)
    assert (request["name"], request["arguments"]) == ("weather", '{"city":"Rom"}')
    assert len(tools.headers) > called
    assert (item["output"], item["approval_request_id"]) == ("rain in Rom", request["id"])
    assert again["param"] == "item.approval_request_id"
    assert kept == request
    assert server.llm.requests[-1].messages[-1].content == "rain in Rom"


async def test_a_tool_that_is_not_is_not_and_the_model_learns_why(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(WEATHER))
        async with server.call() as client:
            await listed(client, tool_at(tools.url, require_approval="always"))
            request = await approval_asked(client)
            called = len(tools.headers)
            await answer(client, request, approve=False, reason="too far away")
            await client.until("response.done")
            assert len(tools.headers) == called
    assert_all_are_of_the_sdk(client.events)
    assert not client.all("response.mcp_call.in_progress")
    told = server.llm.requests[-1].messages[-1]
    assert told.content == "It failed: it was not approved of: too far away"


async def test_what_is_not_approved_of_waits_for_what_was_approved_of_beside_it(serve: Any) -> None:
    second = ToolCallDelta(1, "call_2", "weather", '{"city":"Rom"}')
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(SLOW, second))
        async with server.call() as client:
            await listed(client, tool_at(tools.url, require_approval="always"))
            await client.send("response.create")
            response = (await client.until("response.done"))["response"]
            slow, weather = response["output"]
            await answer(client, slow, approve=True)
            assert await asyncio.to_thread(tools.began.wait, 10)
            await answer(client, weather, approve=False)
            await client.refusal("conversation.item.retrieve", item_id="sync")
            tools.go.set()
            await client.until("response.mcp_call.completed")
            await client.until("response.done")
            await client.refusal("conversation.item.retrieve", item_id="sync")
            assert len(client.all("response.created")) == 2  # one reply reads both
    told = [each.content for each in server.llm.requests[-1].messages if each.role == "tool"]
    assert told == ["at last", "It failed: it was not approved of"]


async def test_approval_of_nothing_is_refused(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        item = {"type": "mcp_approval_response", "approval_request_id": "x", "approve": True}
        error = await client.refusal("conversation.item.create", item=item)
        forged = {"type": "mcp_call", "server_label": "a", "name": "b", "arguments": "",
                  "output": "c"}  # fmt: skip
        refused = await client.refusal("conversation.item.create", item=forged)
    assert error["param"] == "item.approval_request_id"
    assert refused["param"] == "item.type"


# --- what goes wrong ------------------------------------------------------------------------


async def test_a_tool_that_fails_is_told_of_and_the_call_goes_on(serve: Any) -> None:
    broken = ToolCallDelta(0, "call_1", "broken", "{}")
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(broken))
        async with server.call() as client:
            await listed(client, tool_at(tools.url))
            await client.send("response.create")
            await client.until("response.mcp_call.failed")
            item = (await client.until("conversation.item.done"))["item"]
            await client.until("response.done")
    assert_all_are_of_the_sdk(client.events)
    assert item["output"] is None
    assert item["error"]["type"] == "tool_execution_error"
    assert "broken" in item["error"]["message"]
    assert server.llm.requests[-1].messages[-1].content.startswith("It failed: ")


async def test_a_server_that_is_not_there_is_told_of_and_the_call_goes_on(serve: Any) -> None:
    server = await serve("mcp.servers=http://127.0.0.1:9/mcp")
    async with server.call() as client:
        await client.update(tools=[tool_at("http://127.0.0.1:9/mcp")])
        failed = await client.until("mcp_list_tools.failed")
        item = (await client.until("conversation.item.done"))["item"]
        await client.take_turn()
        done = (await client.until("response.done"))["response"]
    assert_all_are_of_the_sdk(client.events)
    assert failed["error"]["type"] == "http_error"
    assert (item["tools"], item["id"]) == ([], failed["item_id"])
    assert done["status"] == "completed"


async def test_servers_that_are_named_in_a_burst_are_no_more_than_a_call_may_ask(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voice.doors.realtime_mcp._MOST_CLIENTS", 2)
    server = await serve("mcp.servers=http://127.0.0.1:9/")
    async with server.call() as client:
        for label in "abcde":
            tool = tool_at("http://127.0.0.1:9/mcp", server_label=label)
            await client.send("session.update", session={"type": "realtime", "tools": [tool]})
        errors = [(await client.until("mcp_list_tools.failed"))["error"] for _ in "abcde"]
    assert sum("which is all" in error["message"] for error in errors) == 3


async def test_a_public_server_that_turns_out_to_be_private_is_not_called(serve: Any) -> None:
    server = await serve("mcp.servers=*")
    async with server.call() as client:
        for place in (
            "https://localhost:9/mcp",
            "https://[::ffff:127.0.0.1]/",
            "https://10.0.0.1/",
        ):
            await client.update(tools=[tool_at(place)])
            failed = await client.until("mcp_list_tools.failed")
            assert "not one of the public Internet" in failed["error"]["message"]


@pytest.mark.parametrize(
    ("settings", "tool", "param", "told"),
    [
        ((), {}, "server_url", "mcp.servers names none"),
        (("mcp.servers=http://a.test/",), {}, "server_url", "none of those"),
        (("mcp.servers=*",), {}, "server_url", "none of those"),  # it is no https
        (("mcp.servers=*",), {"server_url": None}, "server_url", "required"),
        (("mcp.servers=*",), {"connector_id": "connector_gmail"}, "connector_id", "OpenAI's own"),
        (("mcp.servers=http://x.test/",), {"headers": {"Host": "a"}}, "headers", "'Host'"),
        (("mcp.servers=http://x.test/",), {"headers": {"A": "b\r\nC: d"}}, "headers", "one line"),
        (("mcp.servers=http://x.test/",), {"authorization": "é"}, "authorization", "ASCII"),
        ((), {"server_label": "no label"}, "server_label", "server_label"),
    ],
)
async def test_what_a_session_may_not_name(
    serve: Any, settings: tuple[str, ...], tool: dict[str, Any], param: str, told: str
) -> None:
    server = await serve(*settings)
    async with server.call() as client:
        named = tool_at("http://x.test/mcp", **tool)
        error = await client.refusal("session.update", session={"tools": [named]})
        session = await client.update()
    assert error["param"] == f"session.tools[0].{param}"
    assert told in error["message"]
    assert SECRET not in error["message"]
    assert session["tools"] == []


async def test_two_servers_need_two_labels(serve: Any) -> None:
    server = await serve("mcp.servers=http://x.test/")
    async with server.call() as client:
        twice = [tool_at("http://x.test/a"), tool_at("http://x.test/b")]
        error = await client.refusal("session.update", session={"tools": twice})
    assert error["param"] == "session.tools[1].server_label"


async def test_a_model_that_calls_without_end_is_stopped(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(WEATHER, then=(WEATHER,)))
        async with server.call() as client:
            await listed(client, tool_at(tools.url))
            await client.send("response.create")
            for _ in range(MOST_ROUNDS + 1):
                await client.until("response.mcp_call.completed")
            await client.say("sync")
            assert len(client.all("response.created")) == MOST_ROUNDS + 1
            choices = [request.tool_choice for request in server.llm.requests]
            assert choices == ["auto"] * MOST_ROUNDS + ["none"]


# --- while the tool works -------------------------------------------------------------------

SLOW = ToolCallDelta(0, "call_1", "slow", "{}")


async def test_a_slow_tool_is_waited_for_with_words(serve: Any) -> None:
    async with tool_server() as tools:
        settings = (f"mcp.servers={tools.url}", "turns.filler_ms=200", "agent.language=en")
        server = await serve(*settings, llm=calls(SLOW))
        async with server.call() as client:
            await listed(client, tool_at(tools.url))
            await client.update(output_modalities=["audio"])
            await client.send("response.create")
            await client.until("response.mcp_call.in_progress")
            await client.until("response.done")
            filler = (await client.until("response.done"))["response"]
            tools.go.set()
            await client.until("response.mcp_call.completed")
            answered = (await client.until("response.done"))["response"]
    assert "moment" in filler["output"][0]["content"][0]["transcript"]
    assert answered["output"][0]["content"][0]["transcript"] == "It rains."
    assert len(server.llm.requests) == 2


async def test_a_result_that_comes_while_the_caller_speaks_is_kept_for_the_answer(
    serve: Any, eventually: Callable[..., Any]
) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(SLOW))
        async with server.call() as client:
            await listed(client, tool_at(tools.url))
            await client.send("response.create")
            await client.until("response.done")
            await client.speak()
            await client.until("input_audio_buffer.speech_started")
            tools.go.set()
            await client.until("response.mcp_call.completed")
            await client.speak(200)
            await client.say("sync")
            assert len(client.all("response.created")) == 1  # nobody is spoken over
            await client.pause()
            await client.until("response.done")
            await client.say("sync")
            assert len(client.all("response.created")) == 2  # one reply answers both
    messages = server.llm.requests[-1].messages
    assert [m.content for m in messages if m.role == "tool"] == ["at last"]
    assert any(m.role == "user" for m in messages)


async def test_a_caller_who_hangs_up_ends_the_waiting(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(SLOW))
        async with server.call() as client:
            await listed(client, tool_at(tools.url))
            await client.send("response.create")
            assert await asyncio.to_thread(tools.began.wait, 10)
        await server.is_empty()
        assert tools.headers[-1][":method"] == "DELETE"


# --- which tools ----------------------------------------------------------------------------


def offered(server: Any) -> list[str]:
    return [tool.name for tool in server.llm.requests[-1].tools]


async def test_only_what_is_allowed_is_offered_and_names_are_kept_apart(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}")
        async with server.call() as client:
            function = {**FUNCTION, "name": "weather"}
            both = ["weather", "with.dots"]
            one = tool_at(tools.url, allowed_tools=both)
            other = tool_at(tools.url, server_label="b", allowed_tools={"read_only": True})
            names = await listed(client, function, one, other)
            await client.send("response.create")
            await client.until("response.done")
            everywhere = offered(server)
            narrowed = {"type": "mcp", "server_label": "house", "allowed_tools": ["with.dots"]}
            await client.send("response.create", response={"tools": [narrowed]})
            await client.until("response.done")
            once = offered(server)
            unknown = {"type": "mcp", "server_label": "elsewhere", "server_url": tools.url}
            error = await client.refusal("response.create", response={"tools": [unknown]})
            aside = {"conversation": "none", "tools": [narrowed]}
            refused = await client.refusal("response.create", response=aside)
            await client.update(tools=[])
            await client.send("response.create")
            await client.until("response.done")
    assert names == {"house": ["weather", "with.dots"], "b": ["weather"]}
    assert everywhere == ["weather", "house__weather", "with_dots", "b__weather"]
    assert once == ["with_dots"]
    assert "elsewhere" in error["message"]
    assert refused["param"] == "response.tools"
    assert offered(server) == []


async def test_a_tool_that_is_chosen_must_be_called(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(WEATHER))
        async with server.call() as client:
            choice = {"type": "mcp", "server_label": "house", "name": "weather"}
            await listed(client, tool_at(tools.url), tool_choice=choice)
            await client.send("response.create")
            await client.until("response.done")
            await client.until("response.done")
    assert [request.tool_choice for request in server.llm.requests] == ["weather", "auto"]


async def test_a_server_that_is_named_again_is_not_asked_again(serve: Any) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}")
        async with server.call() as client:
            await listed(client, tool_at(tools.url))
            await client.update(instructions="Be brief.")
            await client.update(tools=[tool_at(tools.url), FUNCTION])
            await client.send("response.create")
            await client.until("response.done")
            assert not client.all("mcp_list_tools.in_progress")
            assert {"lamp", "weather"} <= set(offered(server))


async def test_functions_of_the_clients_are_waited_for(serve: Any) -> None:
    lamp = ToolCallDelta(1, "call_2", "lamp", "{}")
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", llm=calls(WEATHER, lamp))
        async with server.call() as client:
            await listed(client, tool_at(tools.url), FUNCTION)
            await client.send("response.create")
            await client.until("response.function_call_arguments.done")
            await client.until("response.mcp_call.completed")
            await client.say("sync")
            assert len(client.all("response.created")) == 1
            result = {"type": "function_call_output", "call_id": "call_2", "output": "on"}
            await client.send("conversation.item.create", item=result)
            await client.send("response.create")
            await client.until("response.done")
    told = {m.tool_call_id: m.content for m in server.llm.requests[-1].messages if m.role == "tool"}
    assert told == {"call_1": "rain in Rom", "call_2": "on"}


# --- secrets --------------------------------------------------------------------------------


def texts_below(folder: Path) -> list[str]:
    return [file.read_text("utf-8", "replace") for file in folder.rglob("*") if file.is_file()]


async def test_what_opens_a_server_is_shown_nowhere(
    serve: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with tool_server() as tools:
        url = f"{tools.url}?key={SECRET}-in-url"
        server = await serve(f"mcp.servers={tools.url}", f"journal.dir={tmp_path}",
                             llm=calls(WEATHER))  # fmt: skip
        async with server.call() as client:
            tool = tool_at(tools.url, headers={"X-Key": f"{SECRET}-in-header"})
            session = await client.update(tools=[tool], instructions="x")
            await client.until("mcp_list_tools.completed")
            await client.send("response.create")
            await client.until("response.done")
            await client.until("response.done")
            await client.update(tools=[tool_at(url)])
            await client.until("mcp_list_tools.completed")
        await server.is_empty()
    assert session["tools"][0]["server_url"] == tools.url
    assert "authorization" not in session["tools"][0]
    assert "headers" not in session["tools"][0]
    shown = [json.dumps(event) for event in client.events if event["type"] != "session.updated"]
    theirs = ("websockets.client", "mcp", "sse_starlette", "uvicorn")
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith(theirs)]
    files = texts_below(tmp_path)
    assert files
    assert [text for text in (*shown, *ours, *files) if SECRET in text] == []
    assert any(each.get("x-key") == f"{SECRET}-in-header" for each in tools.headers)


async def test_a_key_for_a_page_brings_servers_whose_secrets_the_page_does_not_see(
    serve: Any,
) -> None:
    async with tool_server() as tools:
        server = await serve(f"mcp.servers={tools.url}", "server.api_keys=ours", llm=calls(WEATHER))
        async with plain_client(server) as http:
            made = await http.post(
                f"http://127.0.0.1:{server.port}/v1/realtime/client_secrets",
                headers={"Authorization": "Bearer ours"},
                json={"session": {"type": "realtime", "tools": [tool_at(tools.url)]}},
            )
            refused = await http.post(
                f"http://127.0.0.1:{server.port}/v1/realtime/client_secrets",
                headers={"Authorization": "Bearer ours"},
                json={"session": {"type": "realtime", "tools": [tool_at("http://evil.test/")]}},
            )
        key = made.json()["value"]
        async with server.call(additional_headers={"Authorization": f"Bearer {key}"}) as client:
            await client.until("mcp_list_tools.completed")
            await client.send("response.create")
            await client.until("response.mcp_call.completed")
    assert refused.status_code == 400
    assert SECRET not in made.text
    assert tools.headers[0]["authorization"] == f"Bearer {SECRET}"
