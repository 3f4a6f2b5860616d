"""The dialogue: its order, what a model reads of it, and what of it was heard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Mark
from engines.ports import Image, Message, ToolCall
from pipelines.conversation.dialogue import (
    IMAGE_CHARACTERS,
    MOST_CHARACTERS,
    MOST_ITEMS,
    NO_RESULT,
    AgentItem,
    CallerItem,
    Dialogue,
    DuplicateItemError,
    Hosted,
    HostFailure,
    Item,
    NoteItem,
    SystemItem,
    ToolCallItem,
    ToolResultItem,
    UnknownItemError,
)
from pipelines.conversation.heard import MS_PER_CHARACTER, Span

LONG = "x" * (MOST_CHARACTERS - 100)


def dialogue_of(*items: Item) -> Dialogue:
    dialogue = Dialogue()
    for item in items:
        dialogue.add(item)
    return dialogue


def ids(dialogue: Dialogue) -> list[str]:
    return [item.id for item in dialogue]


def spoken(*phrases: tuple[str, float]) -> AgentItem:
    """What the agent has said to the end: phrases and the milliseconds of their audio."""
    item = AgentItem("agent", spoken=True)
    for text, duration_ms in phrases:
        item.say(text)
        item.sound(duration_ms)
    item.status = "completed"
    return item


# --- the order of items ---------------------------------------------------------------------


def test_items_are_appended_and_told_what_they_follow() -> None:
    dialogue = Dialogue()
    assert (ids(dialogue), dialogue.last_id, len(dialogue)) == ([], None, 0)
    assert dialogue.add(CallerItem("a")) is None
    assert dialogue.add(CallerItem("b")) == "a"
    assert (ids(dialogue), dialogue.last_id, len(dialogue)) == (["a", "b"], "b", 2)


def test_an_item_is_put_after_another_or_before_all() -> None:
    dialogue = dialogue_of(CallerItem("a"), CallerItem("b"))
    assert dialogue.add(CallerItem("c"), after="a") == "a"
    assert dialogue.add(CallerItem("d"), after="root") is None
    assert dialogue.add(CallerItem("e"), after="b") == "b"
    assert ids(dialogue) == ["d", "a", "c", "b", "e"]


def test_an_item_is_found_and_removed() -> None:
    item = CallerItem("a")
    dialogue = dialogue_of(item, CallerItem("b"))
    assert dialogue.get("a") is item
    dialogue.remove("a")
    assert ids(dialogue) == ["b"]


def test_a_duplicate_changes_nothing() -> None:
    dialogue = dialogue_of(CallerItem("a", "first"))
    with pytest.raises(DuplicateItemError, match="a"):
        dialogue.add(CallerItem("a", "second"), after="root")
    assert dialogue.messages() == (Message("user", "first"),)


def test_an_unknown_id_changes_nothing() -> None:
    dialogue = dialogue_of(CallerItem("a"))
    with pytest.raises(UnknownItemError, match="x"):
        dialogue.add(CallerItem("b"), after="x")
    with pytest.raises(UnknownItemError):
        dialogue.remove("x")
    with pytest.raises(UnknownItemError):
        dialogue.get("x")
    assert ids(dialogue) == ["a"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.integers(-1, 8)), max_size=30))
def test_the_order_is_that_of_a_list(operations: list[tuple[bool, int, int]]) -> None:
    dialogue, expected = Dialogue(), list[str]()
    for adds, number, place in operations:
        item_id, after = str(number), str(place) if place >= 0 else "root"
        if adds and item_id not in expected and after in [*expected, "root"]:
            position = expected.index(after) + 1 if place >= 0 else 0
            previous = dialogue.add(CallerItem(item_id), after)
            expected.insert(position, item_id)
            assert previous == (expected[position - 1] if position else None)
        elif not adds and item_id in expected:
            dialogue.remove(item_id)
            expected.remove(item_id)
        assert ids(dialogue) == expected


# --- what a model reads ---------------------------------------------------------------------


def test_a_model_reads_instructions_items_and_the_words_that_are_not_committed_yet() -> None:
    dialogue = dialogue_of(
        SystemItem("s", "Be kind."), CallerItem("c", "hello"), spoken(("Hi.", 300.0))
    )
    assert dialogue.messages("Be brief.", "and tea") == (
        Message("system", "Be brief."),
        Message("system", "Be kind."),
        Message("user", "hello"),
        Message("assistant", "Hi."),
        Message("user", "and tea"),
    )


def test_what_has_no_words_is_not_read() -> None:
    unheard = spoken(("Hi.", 300.0))
    unheard.cut(0)
    assert dialogue_of(CallerItem("a"), CallerItem("b", ""), unheard).messages() == ()


def test_what_is_left_out_is_not_read() -> None:
    dialogue = dialogue_of(CallerItem("a", "one"), CallerItem("b", "two"), CallerItem("c", "three"))
    messages = dialogue.messages("Be brief.", without={"a", "c"})
    assert [message.content for message in messages] == ["Be brief.", "two"]


CALLS = [ToolCall(str(n), f"tool{n}", "{}") for n in range(3)]


def call(n: int) -> ToolCallItem:
    return ToolCallItem(f"call{n}", CALLS[n])


def result(n: int) -> ToolResultItem:
    return ToolResultItem(f"result{n}", str(n), f"output{n}")


def read_result(n: int, output: str = "") -> Message:
    return Message("tool", output or f"output{n}", tool_call_id=str(n))


def test_parallel_calls_and_the_words_before_them_are_one_message() -> None:
    dialogue = dialogue_of(spoken(("One moment.", 900.0)), call(0), call(1), result(1), result(0))
    assert dialogue.messages() == (
        Message("assistant", "One moment.", (CALLS[0], CALLS[1])),
        read_result(0),
        read_result(1),
    )


def test_calls_one_after_the_other_are_messages_of_their_own() -> None:
    dialogue = dialogue_of(CallerItem("c", "go"), call(0), result(0), call(1), result(1))
    assert dialogue.messages()[1:] == (
        Message("assistant", "", (CALLS[0],)),
        read_result(0),
        Message("assistant", "", (CALLS[1],)),
        read_result(1),
    )


def test_a_result_stays_with_its_call_though_the_caller_spoke_in_between() -> None:
    dialogue = dialogue_of(call(0), CallerItem("c", "still there?"), result(0))
    assert dialogue.messages() == (
        Message("assistant", "", (CALLS[0],)),
        read_result(0),
        Message("user", "still there?"),
    )


def test_a_call_whose_result_is_still_to_come_says_so() -> None:
    dialogue = dialogue_of(call(0), CallerItem("c", "hurry"))
    assert dialogue.messages()[1] == read_result(0, NO_RESULT)


def test_a_hosted_call_brings_its_own_result_whenever_it_comes() -> None:
    calls = [ToolCallItem(f"{n}", ToolCall(f"call_{n}", "f", "{}"), hosted=Hosted("h", "f"))
             for n in range(3)]  # fmt: skip
    dialogue = dialogue_of(*calls, CallerItem("b", "Well?"))
    waiting = dialogue.messages(pending="Hello?")
    done, failed, open_ = (call.hosted for call in calls)
    assert done and failed and open_
    done.output, failed.failure = "42", HostFailure("http", "it is not there", 503)
    called, *told, _ = dialogue.messages()
    assert [message.content for message in waiting if message.role == "tool"] == [NO_RESULT] * 3
    assert waiting[-1] == Message("user", "Hello?")
    assert [call.id for call in called.tool_calls] == ["call_0", "call_1", "call_2"]
    assert [(m.role, m.content, m.tool_call_id) for m in told] == [
        ("tool", "42", "call_0"),
        ("tool", "It failed: it is not there", "call_1"),
        ("tool", NO_RESULT, "call_2"),
    ]
    assert dialogue.messages(without=["0", "1", "2"]) == (Message("user", "Well?"),)


def test_what_clients_alone_read_no_model_does() -> None:
    assert dialogue_of(NoteItem("a", object()), CallerItem("b", "Hi")).messages() == (
        Message("user", "Hi"),
    )


def test_a_hosted_call_that_is_not_told_of_yet_comes_before_nothing() -> None:
    hosted = Hosted("h", "f", told=False)
    dialogue = dialogue_of(
        CallerItem("a"), ToolCallItem("b", ToolCall("c", "f", ""), False, hosted)
    )
    assert dialogue.last_id == "a"
    hosted.told = True
    assert dialogue.last_id == "b"


def test_a_result_without_its_call_is_not_read() -> None:
    assert dialogue_of(CallerItem("c", "hello"), result(0)).messages() == (
        Message("user", "hello"),
    )


@given(st.permutations([call(0), call(1), call(2), result(0), result(1), result(2)]))
def test_every_call_is_answered_right_away_and_once(items: list[Item]) -> None:
    messages = list(dialogue_of(*items, CallerItem("c", "hm")).messages())
    answered = []
    while messages:
        message = messages.pop(0)
        assert message.role != "tool"
        for tool_call in message.tool_calls:
            assert messages.pop(0) == read_result(int(tool_call.id))
            answered.append(tool_call.id)
    assert sorted(answered) == ["0", "1", "2"]


# --- what was heard -------------------------------------------------------------------------


def test_a_phrase_begins_where_the_audio_so_far_ends() -> None:
    item = AgentItem("a")
    item.say("One.")
    item.sound(200)
    item.sound(200)
    item.say(" Two.")
    item.sound(300)
    assert [(span.start_ms, span.end_ms) for span in item.spans] == [(0, 400), (400, 700)]
    assert (item.audio_ms, item.text, item.heard_text) == (700, "One. Two.", "One. Two.")


def test_a_pause_before_any_words_counts() -> None:
    item = AgentItem("a")
    item.sound(50)
    item.say("One.")
    item.sound(100)
    item.cut(60)
    assert (item.audio_ms, item.text, item.heard_text) == (150, "One.", "")


def test_what_is_read_aloud_is_told_to_the_model_as_it_was_written() -> None:
    item = AgentItem("a", spoken=True)
    item.say("It's $5.20 today.", "It's five dollars and twenty cents today.")
    item.sound(1_000, [Mark(4, 300)])
    item.sound(2_000, [Mark(34, 500)])
    item.status = "completed"
    item.cut(1_499)
    assert item.heard_text == "It's"
    item.cut(1_500)
    assert item.heard_text == "It's $5.20"


@pytest.mark.parametrize(
    ("heard_ms", "heard"),
    [
        (-5, ""),
        (0, ""),
        (600, "one two"),
        (999, "one two three."),
        (1_000, "one two three."),
        (1_001, "one two three."),
        (1_500, "one two three. four"),
        (2_000, "one two three. four five."),
        (9_999, "one two three. four five."),
    ],
)
def test_a_cut_keeps_the_whole_words_that_were_heard(heard_ms: float, heard: str) -> None:
    item = spoken(("one two three.", 1_000.0), (" four five.", 1_000.0))
    item.cut(heard_ms)
    assert item.heard_text == heard
    assert item.text == "one two three. four five."


def test_a_better_informed_cut_replaces_the_one_before() -> None:
    item = spoken(("one two three.", 1_000.0))
    item.cut(0)
    item.cut(600)
    assert item.heard_text == "one two"
    item.cut(1_000)
    assert (item.heard_ms, item.heard_text) == (None, "one two three.")


def test_what_was_played_is_all_of_it_or_up_to_the_cut() -> None:
    item = spoken(("one two three.", 1_000.0))
    assert item.played_ms == 1_000
    item.cut(600)
    assert item.played_ms == 600


def test_words_whose_audio_was_never_made_were_not_heard() -> None:
    item = AgentItem("a", spoken=True)
    item.say("One moment.")
    item.sound(700)
    item.say(" I look it up for you.")
    item.cut(700)
    item.status = "incomplete"
    assert item.heard_text == "One moment."


def test_a_phrase_whose_audio_was_cut_off_counts_by_a_speakers_pace() -> None:
    item = AgentItem("a", spoken=True)
    item.say("one two three four five six")
    item.sound(8 * MS_PER_CHARACTER)
    item.cut(8 * MS_PER_CHARACTER)
    item.status = "incomplete"
    assert item.heard_text == "one two"


def test_what_another_item_goes_on_with_no_cut_brings_back() -> None:
    item = AgentItem("a", spoken=True)
    for text in ("One two.", " Three four.", " Five six."):
        item.say(text)
        item.sound(1_000)
    item.cut(1_500)
    item.end_within(1, item.spans[1].until(1_500, 2_000))
    assert item.heard_text == item.text == "One two. Three"
    item.cut(2_500)
    assert item.heard_text == "One two. Three"
    item.cut(300)
    assert item.heard_text == "One"


def test_a_reply_in_text_cannot_be_unheard() -> None:
    item = AgentItem("a")
    item.cut(0)
    item.say("Just text.")
    item.cut(0)
    assert item.heard_text == "Just text."


phrases = st.lists(
    st.tuples(st.text("ab \n.", min_size=1, max_size=20), st.floats(0, 2_000)), max_size=5
)


@given(phrases, st.floats(0, 6_000), st.floats(0, 6_000), st.booleans())
def test_more_audio_heard_is_more_words_heard_and_always_a_beginning(
    said: list[tuple[str, float]], sooner: float, later: float, completed: bool
) -> None:
    item = spoken(*said)
    item.status = "completed" if completed else "incomplete"
    if not item.audio_ms:
        return
    item.cut(min(sooner, later))
    less = item.heard_text
    item.cut(max(sooner, later))
    more = item.heard_text
    assert more.startswith(less)
    assert item.text.startswith(more)
    item.cut(1e9)
    assert item.heard_text == item.text


# --- how much is kept -----------------------------------------------------------------------


def test_the_oldest_items_are_forgotten() -> None:
    dialogue = dialogue_of(*(CallerItem(str(number)) for number in range(MOST_ITEMS + 3)))
    assert len(dialogue) == MOST_ITEMS
    assert next(iter(dialogue)).id == "3"
    dialogue.add(CallerItem("front"), after="root")
    assert ids(dialogue)[:2] == ["front", "4"]


@pytest.mark.parametrize(
    "item",
    [
        SystemItem("a", LONG),
        CallerItem("a", LONG),
        AgentItem("a", [Span(LONG, 0, 0)]),
        ToolCallItem("a", ToolCall("c", "f", LONG)),
        ToolCallItem("a", ToolCall("c", "f", ""), hosted=Hosted("h", "f", LONG)),
        ToolResultItem("a", "c", LONG),
        NoteItem("a", object(), len(LONG)),
    ],
)
def test_so_are_items_that_are_too_long_together(item: Item) -> None:
    dialogue = dialogue_of(item, CallerItem("b", "hi"))
    assert ids(dialogue) == ["a", "b"]
    dialogue.append(CallerItem("c", LONG))
    assert ids(dialogue) == ["b", "c"]


def test_what_was_said_last_is_kept_however_long_it_is() -> None:
    assert ids(dialogue_of(CallerItem("a"), CallerItem("b", LONG * 2))) == ["b"]


def test_an_item_of_our_own_replaces_one_that_took_its_id() -> None:
    dialogue = dialogue_of(CallerItem("a"), SystemItem("b", "mine"), CallerItem("c"))
    assert dialogue.append(AgentItem("b")) == "c"
    assert ids(dialogue) == ["a", "c", "b"]


def test_what_no_client_knows_of_stands_before_nothing_it_is_told_of() -> None:
    dialogue = Dialogue()
    dialogue.add(CallerItem("a", "hello"))
    dialogue.append(ToolCallItem("b", ToolCall("call_1", "hang_up", "{}"), own=True))
    dialogue.append(ToolResultItem("c", "call_1", "done", own=True))
    assert dialogue.append(CallerItem("d", "bye")) == "a"
    assert dialogue.append(CallerItem("e", "bye")) == "d"


def test_pictures_are_read_with_their_words_or_alone() -> None:
    picture = Image("data:image/png;base64,AAAA")
    dialogue = dialogue_of(
        CallerItem("1", "What is this?", images=(picture,)), CallerItem("2", images=(picture,))
    )
    assert dialogue.messages() == (
        Message("user", "What is this?", images=(picture,)),
        Message("user", "", images=(picture,)),
    )


def test_a_picture_outlives_what_as_long_a_text_would_not() -> None:
    picture = Image("x" * MOST_CHARACTERS)
    dialogue = dialogue_of(CallerItem("old", "x"), CallerItem("1", images=(picture,)))
    assert ids(dialogue) == ["old", "1"]
    for number in range(2, IMAGE_CHARACTERS + 2):
        dialogue.add(CallerItem(str(number), images=(picture,)))
    assert len(dialogue) == IMAGE_CHARACTERS
