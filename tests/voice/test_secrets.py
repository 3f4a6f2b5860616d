"""No key is ever shown: in a log of any level, an answer, an address, the journal, or metrics."""

import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from voice.config import ConfigError, load

OURS, THEIRS, WRONG, UPSTREAM = (f"sk-{name}-5f2c9a" for name in ("ours", "theirs", "no", "llm"))
KEYS = (f"server.api_keys={OURS}", f"tenants.acme.keys={THEIRS}")
CLIENTS = ("websockets.client", "httpx", "httpcore")
"""Their side of the test logs what it sends."""


class Shown:
    """All that anybody could read who has no key."""

    def __init__(self, folder: Path, log: pytest.LogCaptureFixture) -> None:
        self._folder = folder
        self._log = log
        self.texts: list[str] = []

    def find(self, *secrets: str) -> list[str]:
        logs = [
            f"{record.name}: {record.getMessage()} {record.exc_text or ''}"
            for record in self._log.records
            if not record.name.startswith(CLIENTS)
        ]
        files = [
            each.read_bytes().decode("latin-1")
            for each in self._folder.rglob("*")
            if each.is_file()
        ]
        assert logs
        assert files
        return [
            text[:200]
            for text in (*logs, *files, *self.texts)
            if any(secret in text for secret in secrets)
        ]


async def talk(server: Any, **options: Any) -> None:
    """A call that has a bit of everything in it, mistakes too."""
    async with server.call(**options) as client:
        await client.update(instructions="Be brief.")
        await client.take_turn()
        await client.until("response.done")
        await client.send("response.create", response={"conversation": "none", "input": []})
        await client.until("response.done")
        await client.refusal("conversation.item.delete", item_id="nothing")


async def refused(server: Any, **options: Any) -> str:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(server.url, proxy=None, **options):
            pass
    return f"{caught.value.response.headers} {caught.value.response.body!r}"


async def test_no_kind_of_key_is_shown_anywhere(
    serve: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = await serve(*KEYS, f"journal.dir={tmp_path}", "server.log_level=debug")
    server.query = "model=one-that-nobody-else-asks-for"  # which is logged
    shown = Shown(tmp_path, caplog)
    http = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(trust_env=False) as client:
        url, bearer = f"{http}/v1/realtime/client_secrets", {"Authorization": f"Bearer {THEIRS}"}
        made = (await client.post(url, json={}, headers=bearer)).json()["value"]
        for key in (WRONG, made):
            answer = await client.post(url, json={}, headers={"Authorization": f"Bearer {key}"})
            shown.texts.append(f"{answer.headers} {answer.text}")
        answer = await client.post(url, content="{", headers=bearer)
        shown.texts.append(f"{answer.headers} {answer.text}")
        for key in (OURS, THEIRS, made):
            await talk(server, additional_headers={"Authorization": f"Bearer {key}"})
            await talk(server, subprotocols=["realtime", f"openai-insecure-api-key.{key}"])
        shown.texts += [
            await refused(server, additional_headers={"Authorization": f"Bearer {WRONG}"}),
            await refused(server, subprotocols=["realtime", f"openai-insecure-api-key.{WRONG}"]),
            await refused(server, origin="https://evil.example",
                          additional_headers={"Authorization": f"Bearer {OURS}"}),
        ]  # fmt: skip
        shown.texts += [(await client.get(f"{http}/{each}")).text for each in ("metrics", "ready")]
    await server.is_empty()
    server.house.records.close()
    shown.texts += [repr(server.house.config), repr(server.house.client_secrets.__dict__)]
    assert shown.find(OURS, THEIRS, WRONG, made) == []


async def test_the_protocol_selected_is_not_the_one_with_the_key(serve: Any) -> None:
    server = await serve(*KEYS)
    offered = [f"openai-insecure-api-key.{OURS}", "realtime"]
    async with server.call(subprotocols=offered) as client:
        assert client.socket.response.headers["Sec-WebSocket-Protocol"] == "realtime"


@pytest.mark.parametrize(
    "wrong",
    [
        (f"server.api_keys={OURS},", "tenants.acme.keys= "),
        (f"tenants.acme.keys={OURS}", f"server.api_keys={OURS}"),
        (f"llm.api_key={UPSTREAM}", "llm.no_such=1", "server.port=x", f"server.api_keys={OURS}"),
        (f"server.api_key={OURS}",),
    ],
)
def test_a_configuration_that_is_refused_shows_no_key(wrong: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(settings=wrong)
        raise ConfigError(repr(load(settings=wrong)))
    assert not any(secret in str(refusal.value) for secret in (OURS, UPSTREAM))


def test_a_configuration_that_is_looked_at_shows_no_key() -> None:
    config = load(settings=[*KEYS, f"llm.api_key={UPSTREAM}", "llm.engine=openai"])
    shown = repr(config)
    assert not any(secret in shown for secret in (OURS, THEIRS, UPSTREAM))
    assert json.dumps(sorted(config.keys)) == '["acme", "default"]'
