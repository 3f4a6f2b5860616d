"""Whatever a client asks of a response or puts into an item: an error or an answer, and no end."""

import json
import random
from typing import Any

import httpx

from engines.scripted import LlmOptions, ScriptedLlm

PICTURE = "data:image/png;base64,iVBORw0KGgo="
LEAVES: list[Any] = [None, True, 0, -1, 2**63, "", "x", "none", "auto", "é" * 50, [], {}]
RESPONSE = {
    "conversation": "none",
    "input": [
        {"type": "item_reference", "id": "known"},
        {"type": "message", "role": "user", "id": "a",
         "content": [{"type": "input_text", "text": "x"},
                     {"type": "input_image", "image_url": PICTURE, "detail": "low"}]},
        {"type": "function_call", "name": "f", "arguments": "{", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ],
    "instructions": "x", "max_output_tokens": 3, "metadata": {"a": "b"},
    "output_modalities": ["text"], "tool_choice": "auto", "parallel_tool_calls": False,
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    "audio": {"output": {"voice": "x", "format": {"type": "audio/pcmu"}}},
}  # fmt: skip


def mutated(value: Any, draw: random.Random) -> Any:
    """The same with something in it replaced, left out or doubled."""
    if draw.random() < 0.12:
        return draw.choice(LEAVES)
    if isinstance(value, dict):
        kept = {name: mutated(each, draw) for name, each in value.items() if draw.random() > 0.1}
        return kept | (
            {draw.choice([*value, "y"]): draw.choice(LEAVES)} if draw.random() < 0.1 else {}
        )
    if isinstance(value, list):
        kept_items = [mutated(each, draw) for each in value if draw.random() > 0.1]
        return kept_items * draw.choice([1, 1, 1, 2])
    return value


async def test_no_response_that_is_asked_for_ends_the_call(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(script=("Hello.",))))
    server.llm.sees_images = True
    draw, outcomes = random.Random(6), set[str]()
    async with server.call() as client:
        await client.say("x", id="known")
        for number in range(400):
            response = mutated(RESPONSE, draw)
            mine = {"type": "response.create", "event_id": f"e{number}", "response": response}
            await client.socket.send(json.dumps(mine))
            while True:
                event = await client.next()
                if event["type"] == "error":
                    error = event["error"]
                    assert error["message"]
                    assert (
                        error["code"] == "invalid_json" or error.get("event_id") == f"e{number}"
                    ), (error, mine)
                    outcomes.add(error["code"])
                    break
                if event["type"] == "response.done":
                    outcomes.add(event["response"]["status"])
                    break
        await client.say("still here")
    assert {"completed", "invalid_value", "invalid_type"} <= outcomes
    assert "failed" not in outcomes


async def test_no_body_breaks_what_makes_keys(serve: Any) -> None:
    server = await serve("server.api_keys=ours")
    url = f"http://127.0.0.1:{server.port}/v1/realtime/client_secrets"
    session = {"type": "realtime", "model": "x", "audio": {"output": {"voice": "x", "speed": 1.0}},
               "tools": RESPONSE["tools"], "turn_detection": {"type": "server_vad"}}  # fmt: skip
    body = {"expires_after": {"anchor": "created_at", "seconds": 60}, "session": session}
    draw, statuses = random.Random(7), set[int]()
    async with httpx.AsyncClient(
        trust_env=False, headers={"Authorization": "Bearer ours"}
    ) as client:
        for _ in range(300):
            answer = await client.post(url, content=json.dumps(mutated(body, draw)))
            statuses.add(answer.status_code)
            assert answer.json().keys() in ({"error"}, {"value", "expires_at", "session"})
    assert statuses == {200, 400}
