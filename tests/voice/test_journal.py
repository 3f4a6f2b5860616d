"""Journals: what is written is read again as it was, as it happens, and whatever happens."""

import asyncio
import dataclasses
import types
from enum import EnumType
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Pcm
from engines.ports import ToolCall, Usage
from pipelines.conversation.events import (
    Command,
    Event,
    OpenTurn,
    ReplyAudio,
    ReplyFinished,
    ReplyText,
    ReplyToolCall,
    TranscriptArrived,
    WindowHeard,
)
from pipelines.conversation.reply import Stages
from pipelines.conversation.settings import TurnSettings
from tests.voice.conftest import wait_written
from tests.voice.recorded import recorded, write
from voice.disk import Disk
from voice.journal import (
    MOST_ENTRIES,
    WRITE_S,
    Closed,
    Header,
    Journal,
    JournalError,
    Said,
    Staged,
    Step,
    decode,
    encode,
    name_of,
    read,
)

# --- any value of any event or command --------------------------------------------------------

MOST = 2**53


def values(hint: Any) -> st.SearchStrategy[Any]:
    """All that a field of this type may hold."""
    kind = get_origin(hint)
    if kind is Annotated:
        base, *metas = get_args(hint)
        bounds = next(meta for meta in metas if isinstance(meta, msgspec.Meta))
        least = bounds.ge if bounds.ge is not None else 0
        most = bounds.le if bounds.le is not None else MOST
        return st.floats(least, most) if base is float else st.integers(int(least), int(most))
    if kind is Literal:
        return st.sampled_from(get_args(hint))
    if kind in (Union, types.UnionType):
        return st.one_of([values(option) for option in get_args(hint)])
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return things(hint)
    if isinstance(hint, EnumType):
        return st.sampled_from(hint)
    return {
        type(None): st.none(),
        bool: st.booleans(),
        int: st.integers(-MOST, MOST),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(),
    }[hint]


def things(kind: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: values(hint) for name, hint in hints.items()})


steps = st.builds(
    Step,
    st.integers(0, MOST),
    st.one_of([things(kind) for kind in get_args(Event)]),
    st.lists(st.one_of([things(kind) for kind in get_args(Command)]), max_size=4).map(tuple),
)


@given(st.lists(steps, max_size=20))
def test_any_steps_survive(told: list[Step]) -> None:
    lines = b"".join(map(encode, told)).splitlines(keepends=True)
    assert list(map(decode, lines)) == told


@given(st.builds(Stages, st.floats(0, MOST), *[st.none() | st.floats(0, MOST)] * 3))
def test_stages_survive(stages: Stages) -> None:
    assert decode(encode(Staged(1.5, stages))) == Staged(1.5, stages)


def test_windows_of_which_nothing_comes_take_little_room() -> None:
    line = encode(Step(86_400_000, WindowHeard(0.0123456789012345, -43.23456789012345)))
    assert line == b"[86400000,0.0123456789012345,-43.23456789012345,0.0]\n"
    assert encode(Step(1, WindowHeard(None))) == b"[1,null,0.0,0.0]\n"


# --- writing --------------------------------------------------------------------------------

SETTINGS = TurnSettings(interrupt_ms=150, profile="patient")


@pytest.mark.virtual_clock
async def test_a_call_is_read_as_it_was(disk: Disk, tmp_path: Path) -> None:
    path, now = tmp_path / "call.jsonl", asyncio.get_running_loop().time() * 1000
    journal = Journal(disk, path, "sess_1", 8_000, SETTINGS)
    journal.stepped(WindowHeard(0.9), [OpenTurn(1, 320)], 1_000_001)
    journal.stepped(TranscriptArrived(1, "“ja” \u2028\n"), [], 1_000_002)
    journal.said(ReplyText(1, "Hello."), 1_000_003.5)
    journal.said(ReplyAudio(1, Pcm(np.zeros(4_800, np.int16), 24_000)), 1_000_004.0)
    journal.said(ReplyToolCall(1, ToolCall("id", "f", "{}")), 1_000_005.0)
    journal.said(ReplyFinished(1, Usage(1, 2), "timeout", "nothing came"), 1_000_006.0)
    journal.staged(Stages(1_000.0, 1_000.1))
    journal.close()
    wait_written(disk)
    call = read(path)
    assert call.header == Header("sess_1", call.header.began, now, 8_000, SETTINGS)
    assert call.whole
    assert call.closed
    window, transcript, text, audio, tool, finished, staged, closed = call.entries
    assert window == Step(1_000_001, WindowHeard(0.9), (OpenTurn(1, 320),))
    assert transcript == Step(1_000_002, TranscriptArrived(1, "“ja” \u2028\n"))
    assert isinstance(text, Said)
    assert (text.name, text.fields["text"]) == ("ReplyText", "Hello.")
    assert audio == Said(1_000_004.0, "ReplyAudio", {"epoch": 1, "duration_ms": 200.0})
    assert isinstance(tool, Said)
    assert tool.fields["call"]["name"] == "f"
    assert isinstance(finished, Said)
    assert finished.fields["code"] == "timeout"
    assert staged == Staged(now, Stages(1_000.0, 1_000.1))
    assert closed == Closed(now)
    assert list(call.steps) == [window, transcript]


@pytest.mark.virtual_clock
async def test_a_server_that_dies_has_lost_half_a_second_at_most(
    disk: Disk, tmp_path: Path
) -> None:
    path = tmp_path / "call.jsonl"
    journal = Journal(disk, path, "sess_1", 24_000, SETTINGS)
    for now in (1, 2):
        journal.stepped(WindowHeard(0.9), [], now)
        await asyncio.sleep(WRITE_S + 0.01)
        wait_written(disk)
        assert [step.now for step in read(path).steps] == list(range(1, now + 1))
    assert not read(path).closed
    journal.close()


@pytest.mark.virtual_clock
async def test_what_comes_all_at_once_is_not_kept_until_its_time(
    disk: Disk, tmp_path: Path
) -> None:
    path = tmp_path / "call.jsonl"
    journal = Journal(disk, path, "sess_1", 24_000, SETTINGS)
    for now in range(MOST_ENTRIES + 10):
        journal.stepped(WindowHeard(0.9), [], now)
    wait_written(disk)
    assert len(read(path).entries) == MOST_ENTRIES - 1
    journal.close()


@pytest.mark.virtual_clock
async def test_a_journal_that_cannot_be_written_keeps_nothing_and_ends_nothing(
    disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file")
    journal = Journal(disk, tmp_path / "taken" / "call.jsonl", "sess_1", 24_000, SETTINGS)
    await asyncio.sleep(WRITE_S + 0.01)
    wait_written(disk)
    for now in range(100):
        journal.stepped(WindowHeard(0.9), [], now)
    assert journal._batch == []
    journal.close()
    wait_written(disk)
    assert len(caplog.records) == 1


# --- reading --------------------------------------------------------------------------------


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    call = recorded()
    path = write(tmp_path / "call.jsonl", call)
    path.write_bytes(path.read_bytes()[:-5])
    cut = read(path)
    assert (cut.whole, cut.closed) == (False, False)
    assert cut.entries == call.entries[:-1]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "call.jsonl: is empty"),
        (b"RIFF\x00\x01\xff", "is not a journal: "),
        (b"[1,2]\n", "is not a journal: "),
        (b'{"journal":"other","version":1}\n', "is not a journal: "),
        (b'{"journal":"antiphon","version":1}\n', "is not a journal: "),
        (b'{"journal":"antiphon","version":7}\n', "version 7, and this server reads version 1"),
    ],
)
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "call.jsonl"
    path.write_bytes(content)
    with pytest.raises(JournalError) as error:
        read(path)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "truncated"),
        (b"[1,2]", "shorter"),
        (b"17", "nothing that a journal holds"),
        (b'{"t":1,"event":["Unheard",{}],"commands":[]}', "there is no Unheard"),
        (b'{"t":1,"event":{},"commands":[]}', "a name and its fields are missing"),
        (b'{"t":1,"event":["ReplySounded",{"epoch":"x"}],"commands":[]}', "Expected `int`"),
        (b'{"t":"1","event":["ReplyRequested",{}],"commands":[]}', "Expected `int`"),
        (b'{"t":1,"stages":{}}', "began"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: bytes, told: str) -> None:
    path = write(tmp_path / "call.jsonl", recorded([]))
    path.write_bytes(path.read_bytes() + line + b"\n[1,0.5,0.0,0.0]\n")
    with pytest.raises(JournalError, match="line 2 cannot be read") as error:
        read(path)
    assert told in str(error.value)


def test_a_call_may_call_itself_what_it_likes() -> None:
    call = recorded([])
    assert name_of("sess_1a-B", call.header.began) == "20260504T123000-sess_1a-B"
    assert name_of("../../etc/päss wd", call.header.began) == "20260504T123000-______etc_p_ss_wd"
    assert len(name_of("x" * 500, call.header.began)) < 120
