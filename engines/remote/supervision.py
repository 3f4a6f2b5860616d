"""One place kept alive: its process is started, watched, killed where it hangs, started again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from engines.ports import EngineError, Load
from engines.remote.client import RemoteEngine
from engines.remote.reports import Progress, Ready, Report, Unfit, from_line
from engines.remote.spec import Place, ProcessSpec

logger = logging.getLogger(__name__)

State: TypeAlias = Literal["starting", "ready", "leaving", "down", "closed"]

_GRACE_S: Final = 5.0
"""To free the model, after the last request has ended."""

_LAST_BREATH_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """What a place is doing. ``beat_age_s``: since its process was last heard of."""

    name: str
    pid: int | None
    state: State
    load: Load
    beat_age_s: float
    restarts: int
    endpoint: str


class EngineProcess:
    """The process of ``spec`` at ``place``, reached through ``remote``."""

    def __init__(self, spec: ProcessSpec, place: Place, remote: RemoteEngine) -> None:
        self.remote = remote
        self.restarts = 0
        self._spec = spec
        self._place = place
        self._state: State = "down"
        self._process: asyncio.subprocess.Process | None = None
        self._exit: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def status(self) -> ProcessStatus:
        remote = self.remote
        return ProcessStatus(
            self._place.name,
            self._process.pid if self._process is not None else None,
            "leaving" if self._state == "ready" and not remote.alive else self._state,
            remote.load(),
            remote.beat_age_s,
            self.restarts,
            remote.endpoint,
        )

    async def start(self) -> None:
        """Start it and wait until it is warm; from then on it is kept alive.

        Raises EngineError with the process's own words where it cannot be used.
        """
        await self._launch()
        self._keeper = asyncio.create_task(self._keep(), name=f"keeper of {self._place.name}")
        self._keeper.add_done_callback(_tell_bug)

    async def close(self) -> None:
        """Let what is open end, for as long as the spec allows, and end the process."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self._end(self._spec.patience.drain_s + _GRACE_S)
        self._state = "closed"
        await self.remote.close()

    # --- one life -----------------------------------------------------------------------

    async def _launch(self) -> None:
        """Raises EngineError, and leaves no process behind then."""
        self._state = "starting"
        patience = self._spec.patience
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "engines.remote.process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, **self._place.environment},
                start_new_session=True,  # Ctrl-C is for the gateway, which ends it in order
            )
            async with asyncio.timeout(patience.warm_up_s):
                await self._wait_ready(self._process)
            self.remote.connect()
            await self.remote.wait_welcome()
        except BaseException as error:
            await self._end(0)
            self._state = "down"
            if isinstance(error, TimeoutError):
                raise self._error(f"was not warm after {patience.warm_up_s:g} s") from error
            if isinstance(error, OSError):
                raise self._error(f"cannot be started: {error}") from error
            raise
        self._state = "ready"
        self._exit = asyncio.create_task(self._watch_exit(self._process))

    async def _wait_ready(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(self._spec) + b"\n")
        while line := await _line(process.stdout):
            match self._report(line):
                case Progress(text):
                    logger.info("%s: %s %s", self._place.name, self._spec.engine.name, text)
                case Unfit(engine, code, message):
                    raise EngineError(engine, code, f"{message} (at {self._place.name})")
                case Ready():
                    return
        raise self._error(f"{_end_of(await process.wait())} before it was warm: see its log above")

    def _report(self, line: bytes) -> Report | None:
        try:
            return from_line(line)
        except ValueError:  # printed before the process took its stdout for the reports
            logger.info("%s: %s", self._place.name, line.decode(errors="replace").rstrip())
            return None

    async def _watch_exit(self, process: asyncio.subprocess.Process) -> None:
        self.remote.give_up(f"its process {_end_of(await process.wait())}")

    async def _end(self, grace_s: float) -> None:
        """Ask the process to end, and end it where it does not; with no grace, kill it now."""
        process = self._process
        if process is None:
            return
        if grace_s:
            with suppress(ProcessLookupError, TimeoutError):
                process.terminate()
                async with asyncio.timeout(grace_s):
                    await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it started goes with it
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        if self._exit is not None:
            await self._exit
        self._process = self._exit = None

    # --- life after life ----------------------------------------------------------------

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            why = await self.remote.wait_lost()
            if self.remote.forgotten and await self._is_back():
                continue
            self._state = "down"
            if loop.time() - began > self._spec.patience.longest_restart_s:
                failures = 0
            logger.error("%s: %s", self._place.name, await self._own_end() or why)
            await self._end(_GRACE_S if self.remote.leaving else 0)
            failures = await self._launch_again(failures)

    async def _is_back(self) -> bool:
        """Whether a process that took this gateway for gone, which was stopped for a while,
        greets it again: it is as good as before."""
        try:
            await self.remote.wait_welcome()
        except EngineError:
            return False
        return True

    async def _own_end(self) -> str:
        """How the process has ended where it has, which the socket may have told first."""
        assert self._process is not None
        try:
            async with asyncio.timeout(_LAST_BREATH_S):
                return f"its process {_end_of(await self._process.wait())}"
        except TimeoutError:
            return ""

    async def _launch_again(self, failures: int) -> int:
        """Start it until it is warm, later after each failure; how often it has failed by now."""
        patience = self._spec.patience
        while True:
            wait_s = min(patience.restart_s * 2.0**failures, patience.longest_restart_s)
            failures = min(failures + 1, 32)
            logger.warning("%s: is started again in %g s", self._place.name, wait_s)
            await asyncio.sleep(wait_s)
            self.restarts += 1
            try:
                await self._launch()
            except EngineError as error:
                logger.error(  # noqa: TRY400 - the process has told its own traceback
                    "%s: has failed %d times in a row: %s", self._place.name, failures, error
                )
            else:
                return failures

    def _error(self, what: str) -> EngineError:
        text = f"its process at {self._place.name} {what}"
        return EngineError(self._spec.engine.name, "unavailable", text)


async def _line(stdout: asyncio.StreamReader) -> bytes:
    """The next line, empty at the end; of one that is no report, for it is too long, the rest."""
    while True:
        with suppress(ValueError):
            return await stdout.readline()


def _end_of(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:  # most of the real-time signals have no name
        return f"ended by signal {-status}"


def _tell_bug(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.critical("%s has ended: a bug", task.get_name(), exc_info=error)
