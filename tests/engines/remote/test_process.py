"""The engine process: what it makes of its spec, and how it begins and ends."""

import asyncio
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from engines.ports import EngineError, SpeechRequest
from engines.remote.process import make_engine, options_of
from engines.remote.reports import Progress, Ready, Unfit, from_line
from engines.remote.spec import EngineSpec
from engines.scripted import ScriptedTts


@dataclass(frozen=True)
class Options:
    slots: int = 1
    window_ms: float = 15.0
    early: bool = False
    voices: tuple[str, ...] = ()
    model: str | None = None


def spec_of(**options):
    return EngineSpec("tts", "house.voice", options)


def test_options_are_the_plain_values_as_their_types_have_them():
    spec = spec_of(slots="8", window_ms=10, early="true", voices="tara, leah", model="folder")
    assert options_of(Options, spec) == Options(8, 10.0, True, ("tara", "leah"), "folder")
    assert options_of(Options, spec_of(voices=["tara"])) == Options(voices=("tara",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slot": 8}, r"no option slot\. Did you mean slots\?"),
        ({"zzz": 8}, r"no option zzz\. Known: early, model, slots, voices, window_ms"),
        ({"slots": "many"}, r"Expected `int`.*slots"),
    ],
)
def test_options_that_do_not_fit_are_told_by_name(options, message):
    with pytest.raises(EngineError, match=message) as caught:
        options_of(Options, spec_of(**options))
    assert caught.value.engine == "voice"


def test_an_engine_is_made_by_its_module():
    assert isinstance(make_engine(EngineSpec("tts", "engines.tts.scripted")), ScriptedTts)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("no_such_house.voice", "there is no module no_such_house: see the engine's name"),
        ("needy_engine", "needs the module no_such_package, which cannot be found: install"),
        ("engines.audio", "is no engine: it needs Options and create"),
    ],
)
def test_a_module_that_is_no_engine_is_told(module, message, tmp_path, monkeypatch):
    (tmp_path / "needy_engine.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EngineError, match=message):
        make_engine(EngineSpec("tts", module))


async def start(*arguments, **options):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "engines.remote.process",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_stands_alone_with_the_path_of_its_spec(
    house, place, counting, all_of, samples_of, tmp_path, number
):
    spec = house.spec("tts")
    path = tmp_path / "spec.json"
    path.write_bytes(
        msgspec.json.encode(
            {
                "engine": counting("tts", items=5),
                "place": "alone",
                "endpoint": spec.endpoint,
                "patience": {"beat_s": 0.03},
            }
        )
    )
    process = await start(str(path), env={**os.environ, **place("a").environment})
    process.stdin.close()  # which is nothing to it
    reports = [from_line(await process.stdout.readline()) for _ in range(3)]
    assert reports == [Progress("imports counting_engine"), Progress("warms up"), Ready()]
    remote = await house.join(spec.endpoint)
    assert samples_of(await all_of(remote, SpeechRequest("Hello."))) == list(range(50))
    process.send_signal(number)
    said, log = await process.communicate()
    assert (process.returncode, said) == (0, b"")
    assert b"libraries print what they like" in log


async def test_a_process_ends_with_whoever_started_it(house, place, counting):
    spec = house.spec("tts")
    line = msgspec.json.encode({"engine": counting("tts"), "place": "a", "endpoint": spec.endpoint})
    process = await start(env={**os.environ, **place("a").environment})
    process.stdin.write(line + b"\n")
    while from_line(await process.stdout.readline()) != Ready():
        pass
    process.stdin.close()
    await process.communicate()
    assert process.returncode == -signal.SIGKILL


def has_ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_a_starter_that_is_killed_leaves_nothing_behind(
    place, counting, eventually, tmp_path
):
    """Also where the interpreter can do nothing: here it is stopped."""
    script = (
        "import asyncio, sys, msgspec\n"
        "from engines.remote.pool import EnginePool\n"
        "from engines.remote.spec import EngineSpec, Place\n"
        "async def main():\n"
        "    spec, place = msgspec.json.decode(sys.argv[1], type=tuple[EngineSpec, Place])\n"
        "    pool = EnginePool(spec, [place])\n"
        "    await pool.warm_up()\n"
        "    print(pool.processes[0].pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    child = tmp_path / "child"
    told = msgspec.json.encode([counting("tts", worker=str(child)), place("a")])
    folder = tempfile.TemporaryDirectory(prefix="remote-")
    starter = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        told,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": folder.name},
    )
    pid = int(await starter.stdout.readline())
    assert os.listdir(folder.name)
    os.kill(pid, signal.SIGSTOP)
    starter.kill()
    await starter.wait()
    for left in (pid, int(child.read_text())):
        await eventually(lambda left=left: has_ended(left))
    await eventually(lambda: not os.listdir(folder.name))
    folder.cleanup()


async def test_a_spec_that_cannot_be_read_is_told(tmp_path):
    process = await start(str(Path(tmp_path, "none.json")))
    said, _ = await process.communicate()
    assert process.returncode == 1
    report = from_line(said)
    assert isinstance(report, Unfit)
    assert "none.json" in report.message
