"""Real calls on one machine: ``make phonecall``, or ``python -m tests.phonecall``.

A Debian of its own (``debian``) has Asterisk and two phones. In namespaces without a way out, they
call a server of ours: real ears, a model and a voice that follow a script (``script``). What the
caller has heard is recorded, and judged (``calls``). Processes, mounts and addresses go with the
namespaces, however this ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import filelock

from engines.models import ModelMissing, ModelStore
from loadtest.server_process import NotStarted, Server
from tests.phonecall import phones, script
from tests.phonecall.calls import WAYS, Caller, Finding, Way, asked, call, findings
from tests.phonecall.debian import APART, PhoneCallError, cache, check_machine, debian
from tests.phonecall.exchange import Asterisk, Root, running, wire_up
from tests.phonecall.steadiness import Steadiness

REPOSITORY: Final = Path(__file__).parents[2]
KEY: Final = "phonecall"
OVER_S: Final = 5.0
"""So long after a call, nothing is left of it."""

BUSY: Final = 3
ATTEMPTS: Final = 3
SIPP: Final = "sipp"
CALLERS: Final = (*(way.extension for way in WAYS), SIPP)
SIPP_KEY: Final = "[keypad: 1]"
CONFIG: Final = """
[agent]
tools = ["hang_up"]
[llm]
engine = "tests.phonecall.model"
asked = {asked}
[tts]
engine = "tests.phonecall.narrator"
[phone]
greeting = {greeting}
audiosocket_port = 9092
digits_quiet_ms = 500
[journal]
dir = {journal}
"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What calls are placed through; ``asked``: what the model was asked, ``last``: where logs and
    recordings go."""

    root: Root
    asterisk: Asterisk
    asked: Path
    last: Path

    @property
    def asked_size(self) -> int:
        """Characters so far."""
        return len(self.asked.read_text("utf-8")) if self.asked.exists() else 0


def place_calls(callers: Sequence[str] = CALLERS) -> list[Finding]:
    """Calls to these extensions, and sipp's; each finding is told of as it is made. Raises
    PhoneCallError."""
    check_machine()
    root = debian(cache())
    try:
        with filelock.FileLock(cache() / "run.lock", timeout=0):
            return _placed(root, cache() / "last", callers)
    except filelock.Timeout:
        raise PhoneCallError("somebody places calls on this machine already: wait for it") from None


def _placed(root: Path, last: Path, callers: Sequence[str]) -> list[Finding]:
    shutil.rmtree(last, ignore_errors=True)
    last.mkdir()
    command = [*APART, "--net", sys.executable, "-m", "tests.phonecall", "--inside", str(root)]
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), "VOICE_API_KEYS": KEY}
    inside = subprocess.run((*command, *callers), cwd=REPOSITORY, env=variables, check=False)
    told = last / "findings.json"
    if inside.returncode or not told.exists():
        raise PhoneCallError(f"not all calls came to their end; what each side logged is in {last}")
    return [Finding(**each) for each in json.loads(told.read_text("utf-8"))]


def inside(folder: Path, callers: Sequence[str], last: Path) -> None:
    """All of it, within namespaces of its own. Raises PhoneCallError, ModelMissing, NotStarted."""
    caller = Caller(ModelStore())
    wire_up()
    root = Root(folder)
    with _served(last) as asked_file, running(root, last / "asterisk.log") as asterisk:
        _say(f"{asterisk.ask('core show version')}\n")
        exchange = Exchange(root, asterisk, asked_file, last)
        made = asyncio.run(_calls(exchange, callers, caller))
    (last / "findings.json").write_text(json.dumps([asdict(each) for each in made]), "utf-8")


async def _calls(exchange: Exchange, callers: Sequence[str], caller: Caller) -> list[Finding]:
    made: list[Finding] = []

    def found(finding: Finding) -> None:
        made.append(finding)
        verdict = {True: "ok  ", False: "FAIL", None: "busy"}[finding.passed]
        _say(f"{verdict} {finding.call}: {finding.what}  {finding.told}\n")

    for way in (way for way in WAYS if way.extension in callers):
        for finding in await _judged(exchange, way, caller):
            found(finding)
    if SIPP in callers:
        for finding in await _sipp(exchange):
            found(finding)
    return made


async def _judged(exchange: Exchange, way: Way, caller: Caller) -> list[Finding]:
    """What was found about a call; it is placed again where the machine had no time for it and
    something went wrong. After so many attempts, nobody knows what is to blame; but what is left of
    a call is no matter of time."""
    for attempt in range(ATTEMPTS):
        _say(f"calling {way.extension} ({way.name}), {script.OVER_MS // 1000} s …\n")
        before = exchange.asked_size
        with Steadiness() as steadiness:
            sound = await call(exchange.root, way, caller, exchange.last)
        made = [await _over(way.name, exchange.asterisk)]
        made += findings(way, caller, sound, asked(exchange.asked, before))
        wrong, complaint = not all(finding.passed for finding in made), steadiness.complaint
        if not (wrong and complaint):
            break
        _say(f"the machine was too busy to judge by that: {complaint}\n")
        if attempt == ATTEMPTS - 1:
            made[1:] = [replace(each, passed=each.passed or None) for each in made[1:]]
    return made


async def _sipp(exchange: Exchange) -> list[Finding]:
    _say("calling 200 with sipp, 14 s …\n")
    before = exchange.asked_size
    await phones.sipp(exchange.root, "200", exchange.last / "sipp.log")
    over = await _over("sipp", exchange.asterisk)
    messages = asked(exchange.asked, before).values()
    return [over, Finding("sipp", "its key arrives", SIPP_KEY in messages, ", ".join(messages))]


async def _over(name: str, asterisk: Asterisk) -> Finding:
    """Whether both sides have forgotten the call, within a while."""
    for _ in range(round(OVER_S / 0.2)):
        if (left := _left(asterisk)) == (0, 0):
            break
        await asyncio.sleep(0.2)
    told = f"{left[0]} calls at the server, {left[1]} channels at Asterisk"
    return Finding(name, "nothing is left of the call", left == (0, 0), told)


def _left(asterisk: Asterisk) -> tuple[int, int]:
    request = urllib.request.Request(
        "http://127.0.0.1:8080/metrics", headers={"Authorization": f"Bearer {KEY}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    calls = next(line for line in lines if line.startswith("antiphon_calls "))
    return round(float(calls.split()[1])), asterisk.channels


@contextmanager
def _served(last: Path) -> Iterator[Path]:
    """A server at 8080; the file in which its model writes what it was asked."""
    config, asked_file = last / "config.toml", last / "asked.jsonl"
    greeting = script.text_of(script.GREETING)
    told = CONFIG.format(
        asked=json.dumps(str(asked_file)),
        greeting=json.dumps(greeting),
        journal=json.dumps(str(last / "journal")),
    )
    config.write_text(told, "utf-8")
    arguments = ["--config", str(config), "--port", "8080"]
    with (last / "server.log").open("w+b") as log, Server(arguments, log=log):
        yield asked_file


def _say(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()


def main() -> int:
    """The exit status is 1 where something was found wrong, 2 where no call could be placed, 3
    where the machine was too busy to tell."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.phonecall", description=(__doc__ or "").partition("\n")[0]
    )
    named = f"of {' '.join(CALLERS)}; all of them if none is named"
    parser.add_argument("callers", nargs="*", default=CALLERS, metavar="CALLER", help=named)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--prepare", action="store_true", help="see whether calls can be placed here, and no more"
    )
    options = parser.parse_args()
    if unknown := set(options.callers) - set(CALLERS):
        parser.error(f"there is no {', '.join(sorted(unknown))}, only {', '.join(CALLERS)}")
    try:
        if options.prepare:
            check_machine()
            debian(cache())
            return 0
        if options.inside is not None:
            inside(options.inside, options.callers, cache() / "last")
            return 0
        made = place_calls(options.callers)
    except (PhoneCallError, ModelMissing, NotStarted) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    counts = Counter(finding.passed for finding in made)
    _say(f"{counts[True]} of {len(made)} findings as they should be")
    _say(f", {counts[None]} unknown: the machine is too busy\n" if counts[None] else "\n")
    if counts[True] < len(made):
        _say(f"recordings and logs: {cache() / 'last'}\n")
    return 1 if counts[False] else BUSY if counts[None] else 0
