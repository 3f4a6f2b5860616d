"""All stock clients against one server: ``make conformance``, or ``python -m tests.conformance``.

Each client runs in an environment of its own, pinned, in the user's cache folder, as anyone would
use it: it is given the address and a key (``environments``). The server has a real voice activity
detector, hears real speech, and answers as the steps need it (``model``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from engines.models import ModelMissing, ModelStore
from loadtest.peers.environments import Bot, PeerError, cache
from loadtest.speech import from_first_sound, recordings
from tests.conformance.environments import CLIENTS, StockClient

ROOT = Path(__file__).parents[2]
RATE = 24_000
CLIENT_S = 240.0
"""For all steps of one client."""

SPEECH_S = 2.0
CONFIG = """
[asr]
engine = "scripted"
text = "please tell me something about this server"
[llm]
engine = "tests.conformance.model"
[tts]
engine = "scripted"
[end_of_turn]
engine = "none"
[server]
log_level = "warning"
"""


@dataclass(frozen=True)
class Result:
    """What one step of a client came to."""

    client: str
    step: str
    passed: bool
    told: str = ""


def caller_speech() -> bytes:
    """Two seconds of a recording that the model store has, as the clients send it."""
    recording = recordings(ModelStore().path("speech"))[0]
    spoken = from_first_sound(recording.pcm.samples.astype(np.float32))
    cut = spoken[: round(SPEECH_S * recording.pcm.rate)]
    resampled = soxr.resample(cut, recording.pcm.rate, RATE)
    return np.clip(resampled, -32_768, 32_767).astype("<i2").tobytes()


@contextmanager
def served() -> Iterator[Mapping[str, str]]:
    """A server; the variables that clients are told by."""
    with tempfile.TemporaryDirectory(prefix="antiphon-conformance-") as folder:
        config, speech, key = Path(folder, "c.toml"), Path(folder, "caller.pcm"), _key()
        config.write_text(CONFIG, "utf-8")
        speech.write_bytes(caller_speech())
        command = [sys.executable, "-m", "voice.cli", "serve", "--config", str(config)]
        variables = {**os.environ, "VOICE_API_KEYS": key, "PYTHONPATH": str(ROOT)}
        with Bot((*command, "--port", "0"), variables, None) as server:
            yield {
                "CONFORMANCE_URL": f"http://127.0.0.1:{server.port}",
                "CONFORMANCE_KEY": key,
                "CONFORMANCE_SPEECH": str(speech),
            }


def _key() -> str:
    return f"sk-conformance-{secrets.token_hex(8)}"


async def results_of(client: StockClient, variables: Mapping[str, str]) -> AsyncIterator[Result]:
    """One for each step as it ends; a step that never came is one that failed."""
    due = list(client.steps)
    async with _started(client, variables) as process:
        assert process.stdout is not None
        async for line in process.stdout:
            told = json.loads(line)
            due.remove(told["step"])
            yield Result(client.name, told["step"], told["passed"], told["told"])
    for step in due:
        yield Result(
            client.name, step, False, f"never came: the client ended with {process.returncode}"
        )


@asynccontextmanager
async def _started(
    client: StockClient, variables: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    command, environment = client.command()
    process = await asyncio.create_subprocess_exec(
        *command, env={**environment, **variables}, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(CLIENT_S):
            yield process
            await process.wait()
    except TimeoutError:
        sys.stderr.write(f"{client.name} did not end within {CLIENT_S:.0f} s\n")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def run(clients: Sequence[StockClient]) -> list[Result]:
    """All steps of these clients, each told of as it ends."""
    results = []
    with served() as variables:
        for client in clients:
            async for result in results_of(client, variables):
                verdict = "ok  " if result.passed else "FAIL"
                sys.stdout.write(f"{verdict} {client.title}: {result.step}  {result.told}\n")
                sys.stdout.flush()
                results.append(result)
    return results


def table(results: Sequence[Result]) -> str:
    """Clients by steps."""
    steps = list(dict.fromkeys(step for client in CLIENTS for step in client.steps))
    verdicts = {(result.client, result.step): result.passed for result in results}
    named = [client for client in CLIENTS if any(r.client == client.name for r in results)]
    rows = [f"| client | {' | '.join(steps)} |", f"|---|{'---|' * len(steps)}"]
    for client in named:
        marks = [{True: "ok", False: "FAIL", None: "–"}[verdicts.get((client.name, step))]
                 for step in steps]  # fmt: skip
        rows.append(f"| {client.title} | {' | '.join(marks)} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """The exit status is 1 where a step failed, 2 where a client could not be tried."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=(__doc__ or "").partition("\n")[0]
    )
    names = [client.name for client in CLIENTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument("--cache", type=Path, default=cache(), help="where environments are kept")
    options = parser.parse_args()
    chosen = [client for client in CLIENTS if client.name in options.only]
    try:
        results = asyncio.run(run([client.installed(options.cache) for client in chosen]))
    except (PeerError, ModelMissing) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"\n{table(results)}")
    return 0 if all(result.passed for result in results) else 1
