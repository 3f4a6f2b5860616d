import pytest

from loadtest.habits import Habits
from loadtest.records import Arrival, Plan, Progress, Trouble, decode, decode_plan, encode
from tests.loadtest.calling import call, turn


@pytest.mark.parametrize(
    "record",
    [
        turn(gaps_ms=[1.5]),
        call(errors=["x"]),
        Progress(at_s=1.0, open=1, talking=0, speaking=0, cpu_s=0.1, session_s=1.0, late={7: 2}),
        Trouble(message="no"),
    ],
)
def test_a_record_crosses_the_border_of_processes_as_it_is(record):
    line = encode(record)
    assert b"\n" not in line
    assert decode(line) == record


def test_a_plan_crosses_it_too():
    plan = Plan(
        url="ws://there", speech="dir", wire="realtime", arrivals=[Arrival(1, 0.5, 2)],
        habits=Habits(barge_ins=0.5), end_s=1.0, drain_s=2.0, seed=3,
    )  # fmt: skip
    assert decode_plan(encode(plan)) == plan
