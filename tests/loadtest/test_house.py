import asyncio
import contextlib
from pathlib import Path

import pytest

from loadtest.house import HouseError, Wanted, house, most_calls_setting
from tests.loadtest.pretended import pretended
from voice.config import load


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Wanted(url="ws://there", scripted=True), "--scripted is for a server that is started"),
        (Wanted(url="ws://there", settings=["a=b"]), "--set is for a server that is started"),
        (Wanted(url="ws://there", config=Path("x")), "--config is for a server that is started"),
        (Wanted(pid=1), "--pid is for a server that runs"),
        (Wanted(url="ws://there", pid=2**22 + 1), "there is no such process"),
        (Wanted(core=4_095), r"--server-core 4095: there is no such core; there are \d"),
    ],
)
def test_options_that_do_not_go_together_are_told(wanted, told):
    with pytest.raises(HouseError, match=told), house(wanted):
        pytest.fail("there is no such house")


def test_nobody_at_home():
    with (
        pytest.raises(HouseError, match=r"nothing answers at ws://127\.0\.0\.1:1.*voice serve"),
        house(Wanted(url="ws://127.0.0.1:1")),
    ):
        pytest.fail("there is no such house")


async def test_a_server_that_runs_is_taken_as_it_is():
    async with pretended() as server:
        with contextlib.ExitStack() as stack:
            here = await asyncio.to_thread(stack.enter_context, house(Wanted(url=server.url)))
            assert (here.url, here.pid, here.scripted) == (server.url, None, False)


def test_a_server_that_does_not_start_has_the_last_word():
    with (
        pytest.raises(HouseError, match=r"did not start(.|\n)*there is no such setting"),
        house(Wanted(scripted=True, settings=["no.such=thing"])),
    ):
        pytest.fail("there is no such house")


def test_what_a_server_is_started_with():
    wanted = Wanted(config=Path("h.toml"), scripted=True, settings=["a.b=c"], most_calls=9)
    most = f"{most_calls_setting()}=9"
    assert wanted.arguments() == [
        "--config", "h.toml", "--scripted", "--set", most, "--set", "a.b=c",
    ]  # fmt: skip


def test_the_setting_for_the_most_calls_is_one_that_there_is():
    load(settings=[f"{most_calls_setting()}=9"])
