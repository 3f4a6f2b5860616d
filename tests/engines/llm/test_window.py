"""What of a long dialogue stays."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from engines.llm.window import estimated_tokens, recent
from engines.ports import Message

SYSTEM = Message("system", "Be brief.")


def turns(count, words=10):
    pairs = (
        (Message("user", f"{i} " + "word " * words), Message("assistant", f"{i} " + "yes " * words))
        for i in range(count)
    )
    return tuple(message for pair in pairs for message in pair)


def cost(messages):
    return sum(map(estimated_tokens, messages))


def test_a_dialogue_that_fits_stays_as_it_is():
    messages = (SYSTEM, *turns(3))
    assert recent(messages, cost(messages)) == messages


def test_the_oldest_turns_go_and_the_instructions_stay():
    messages = (SYSTEM, *turns(20), Message("user", "And now?"))
    kept = recent(messages, 200)
    assert kept[0] == SYSTEM
    assert kept[1:] == messages[-len(kept) + 1 :]
    assert kept[1].role == "user"
    assert 1 < len(kept) < len(messages)
    assert cost(kept) <= 200


def test_the_prompt_begins_the_same_for_several_turns_running():
    room = 400
    beginnings = []
    for count in range(12, 40):
        kept = recent((SYSTEM, *turns(count), Message("user", "And?")), room)
        beginnings.append(kept[1])
    changes = sum(a != b for a, b in itertools.pairwise(beginnings))
    assert 2 <= changes <= len(beginnings) // 3


def test_the_last_turn_stays_with_all_that_follows_it():
    last = (
        Message("user", "long " * 500),
        Message("assistant", "", ()),
        Message("tool", "sunny", tool_call_id="1"),
    )
    assert recent((SYSTEM, *turns(3), *last), 100) == (SYSTEM, *last)


def test_without_instructions_nothing_is_put_in_their_place():
    assert recent((), 100) == ()
    assert recent(turns(9), 100)[0].role == "user"


def test_characters_that_cannot_be_encoded_are_counted():
    assert estimated_tokens(Message("user", "\ud800")) > 0


roles = st.sampled_from(["user", "assistant", "tool"])
messages = st.lists(st.builds(Message, roles, st.text(max_size=60)), max_size=30)


@given(messages, st.booleans(), st.integers(-50, 500))
def test_what_stays_is_the_end_of_the_dialogue(body, instructed, room):
    whole = (SYSTEM,) * instructed + tuple(body)
    kept = recent(whole, room)
    tail = kept[instructed:]
    assert kept[:instructed] == whole[:instructed]
    assert tail == tuple(body)[len(body) - len(tail) :]
    users = [index for index, message in enumerate(body) if message.role == "user"]
    if users:
        assert len(tail) >= len(body) - users[-1]
        if len(tail) < len(body):
            assert tail[0].role == "user"
