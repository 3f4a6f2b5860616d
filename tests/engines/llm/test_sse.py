"""Server-sent events: the same data however the bytes are cut."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.llm.sse import EventData

STREAM = (
    "\ufeffdata: one\n\n"
    ": a comment\r\n\r\n"
    "event: message\r\ndata: first line\r\ndata:second line\r\nid: 7\r\n\r\n"
    "data: caf\u00e9 \u2014 na\u00efve\r\r"
    "retry: 10\n\n"
    "data\n\n"
    "data:  two spaces\n\n"
).encode()
EVENTS = [
    b"one",
    b"first line\nsecond line",
    "caf\u00e9 \u2014 na\u00efve".encode(),
    b"",
    b" two spaces",
]


def test_events_come_whole_with_every_line_ending():
    reader = EventData()
    assert reader.feed(STREAM) + reader.finish() == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_where_the_bytes_are_cut(cuts):
    reader = EventData()
    edges = [0, *sorted(cuts), len(STREAM)]
    got = [event for a, b in itertools.pairwise(edges) for event in reader.feed(STREAM[a:b])]
    assert got + reader.finish() == EVENTS


def test_an_event_is_given_as_soon_as_its_empty_line_is_there():
    reader = EventData()
    assert reader.feed(b"data: x\n") == []
    assert reader.feed(b"\n") == [b"x"]


def test_a_last_event_without_its_empty_line_is_not_lost():
    reader = EventData()
    assert reader.feed(b"data: x") == []
    assert reader.finish() == [b"x"]
    assert reader.finish() == []


@pytest.mark.parametrize("line", [b"x" * 70_000, b"data: " + b"x" * 70_000 + b"\n"])
def test_an_event_that_never_ends_is_refused(line):
    reader = EventData()
    with pytest.raises(ValueError, match="larger than"):
        for _ in range(20):
            reader.feed(line)


def test_a_long_line_that_comes_byte_by_byte_is_looked_through_once():
    reader = EventData()
    reader.feed(b"data: " + b"x" * 900_000)
    began = time.process_time()
    for _ in range(5_000):
        reader.feed(b"y")
    assert time.process_time() - began < 2.0  # to look through all of it each time takes 20 s
    assert len(reader.feed(b"\n\n")[0]) == 905_000
