"""What the Realtime door's calls leave behind: journals that replay, and recordings if asked."""

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from engines.scripted import LlmOptions, ScriptedLlm, ScriptedTts, TtsOptions
from pipelines.conversation.events import PauseReply, StopReply
from voice.cli import main
from voice.journal import Said, read


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_a_call_leaves_a_journal_that_replays(
    serve: Any, eventually: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = await serve(
        f"journal.dir={tmp_path}",
        llm=ScriptedLlm(LlmOptions(item_delay_ms=5)),
        tts=ScriptedTts(TtsOptions(item_delay_ms=5)),
    )
    async with server.call() as client:
        await client.update(audio={"input": {"turn_detection": {"type": "semantic_vad"}}})
        await client.take_turn()
        await client.until("response.output_audio.delta")
        await client.take_turn()  # over the reply
        await client.until("conversation.item.input_audio_transcription.completed")
        await client.say("and one in writing")
    await server.is_empty()
    server.house.records.close()
    [path] = files_in(tmp_path)
    call = read(path)
    assert call.header.call.startswith("sess_")
    assert call.closed
    given = [type(command) for step in call.steps for command in step.commands]
    assert PauseReply in given or StopReply in given
    assert any(isinstance(entry, Said) and entry.name == "ReplyAudio" for entry in call.entries)
    assert path.stat().st_size < 100_000
    assert main(["replay", str(path), "--check"]) == 0
    assert "decides as it did" in capsys.readouterr().out


@pytest.mark.parametrize(("query", "kept"), [("record=1", 1), ("record=0", 0), ("model=x", 0)])
async def test_a_client_may_ask_for_a_recording(
    serve: Any, tmp_path: Path, query: str, kept: int
) -> None:
    server = await serve(f"journal.recordings={tmp_path}")
    server.query = query
    async with server.call() as client:
        await client.take_turn()
        await client.until("response.done")
    await server.is_empty()
    server.house.records.close()
    files = files_in(tmp_path)
    assert len(files) == kept
    for file in files:
        frames, rate = soundfile.read(file, dtype="int16")
        assert (frames.shape[1], rate) == (2, 16_000)
        assert abs(frames).max(axis=0).min() > 100  # both are heard


async def test_a_server_that_keeps_no_recordings_says_so(serve: Any) -> None:
    server = await serve()
    server.query = "record=1"
    with pytest.raises(InvalidStatus) as caught:
        async with connect(server.url, proxy=None):
            pass
    response = caught.value.response
    assert response.status_code == 400
    error = json.loads(response.body)["error"]
    assert error["code"] == "cannot_record"
    assert "journal.recordings" in error["message"]


async def test_a_house_that_records_all_records_who_does_not_ask(
    serve: Any, tmp_path: Path
) -> None:
    server = await serve(f"journal.recordings={tmp_path}", "journal.record=all")
    async with server.call() as client:
        await client.speak()
        await client.hear(b"")
        await client.say("something")
    await server.is_empty()
    server.house.records.close()
    assert len(files_in(tmp_path)) == 1
