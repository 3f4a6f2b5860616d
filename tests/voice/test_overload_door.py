"""A strained house by way of its door: what a caller of the Realtime API is told and given."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from pipelines.conversation.brevity import BRIEFLY
from pipelines.conversation.events import StrainChanged
from pipelines.strain import Strain
from voice.journal import Recorded, read
from voice.overload import Overload
from voice.replay import differences


def the_journal_in(folder: Path) -> Recorded:
    [path] = folder.glob("*.jsonl")
    return read(path)


async def test_a_call_that_comes_under_strain_is_answered_briefly_and_replays(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    running = await serve(f"journal.dir={tmp_path}", "overload.short_tokens=12")
    running.house.strain = Strain.SHORT_REPLIES
    async with running.call() as client:
        await client.take_turn()
        done = await client.until("response.done")
    request = running.llm.requests[-1]
    assert request.messages[-1].content.endswith(f"({BRIEFLY['en']})")
    assert done["response"]["usage"]["output_tokens"] == request.max_tokens == 12
    await running.is_empty()
    running.house.records.close()
    journal = the_journal_in(tmp_path)
    strains = [step.event for step in journal.steps if isinstance(step.event, StrainChanged)]
    assert strains == [StrainChanged(Strain.SHORT_REPLIES)]
    assert list(differences(journal)) == []


async def test_no_new_calls_is_said_before_the_websocket_and_the_old_ones_go_on(
    serve: Callable[..., Any],
) -> None:
    running = await serve()
    async with running.call() as client:
        running.house.strain = Strain.NO_CALLS
        with pytest.raises(InvalidStatus) as refused:
            async with running.call():
                pass
        assert refused.value.response.status_code == 503
        assert b'"overloaded"' in refused.value.response.body
        await client.take_turn()
        assert (await client.until("response.done"))["response"]["status"] == "completed"


async def test_a_house_with_as_much_as_it_can_bear_says_so(serve: Callable[..., Any]) -> None:
    running = await serve()
    async with running.call():
        running.house.bearable = 1
        with pytest.raises(InvalidStatus) as refused:
            async with running.call():
                pass
        assert b'"settling"' in refused.value.response.body
        assert refused.value.response.headers["Retry-After"]
        async with httpx.AsyncClient() as http:
            metrics = await http.get(f"http://127.0.0.1:{running.port}/metrics")
        assert 'antiphon_refusals_total{reason="settling"' in metrics.text


async def test_the_watch_sees_the_replies_of_real_calls(serve: Callable[..., Any]) -> None:
    running = await serve()
    overload = Overload(running.house, asyncio.get_running_loop().time)
    async with running.call() as client:
        await client.take_turn()
        await client.until("response.done")
        overload.look()
        figure = running.house.metrics.registry.get_sample_value
        assert figure("antiphon_underruns_total") == 0
        assert figure("antiphon_strain") == 0
        [call] = running.house.open_calls
        assert call.pulse.sent_ms == pytest.approx(3_000)
