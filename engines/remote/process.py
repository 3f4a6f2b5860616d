"""One engine in a process of its own: ``python -m engines.remote.process [SPEC.json]``.

Without an argument the spec, one line of JSON, comes from whoever started it; that one keeps
the pipe open, and the process ends with it, as does all that it has started itself. With the
path of a spec the process stands alone, for gateways that are given its endpoint. What libraries
print goes to stderr, as the log does: stdout is for the reports.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_type_hints

import msgspec

from engines.nearest import nearest
from engines.ports import Engine, EngineError
from engines.remote.reports import MOST_CHARACTERS, Progress, Ready, Report, Unfit, to_line
from engines.remote.serving import EngineServer
from engines.remote.spec import EngineSpec, ProcessSpec

logger = logging.getLogger(__name__)

_GUARD: Final = """
trap '' HUP INT TERM
while read -r _; do :; done
kill -s KILL -- "-$1"
sleep 1
kill -0 "$3" || { rm -f -- "$2"; rmdir -- "${2%/*}"; }
"""
"""Waits for the end of stdin, the pipe of the starter ``$3``. A process of its own, since this
one may be stuck in native code, and since nothing else ends the children of a library, such as
TensorRT-LLM's workers, which hold the GPU. Where the starter is gone for good, its socket goes,
and the folder with the last one."""

Tell = Callable[[Report], None]


def main() -> None:
    """Exits with 0 after SIGTERM, and with 1 where the engine cannot be used."""
    tell = _own_stdout()
    try:
        spec = read_spec(sys.argv[1:])
    except (OSError, msgspec.MsgspecError, EngineError) as error:
        tell(Unfit("engine process", "failed", f"its spec cannot be read: {error}"))
        sys.exit(1)
    logging.basicConfig(level=logging.INFO, format=f"%(levelname)s {spec.place}: %(message)s")
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        sys.exit(runner.run(run(spec, tell)))


def read_spec(arguments: list[str]) -> ProcessSpec:
    """The spec, from a file or from the starter, whose end is then this process's end."""
    if arguments:
        return msgspec.json.decode(Path(arguments[0]).read_bytes(), type=ProcessSpec)
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=ProcessSpec)
    _end_with_starter(spec.endpoint.removeprefix("ipc://"))
    return spec


def _end_with_starter(socket: str) -> None:
    if os.getpgrp() != os.getpid():  # whoever started it may have made the group already
        os.setpgid(0, 0)
    subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "sh", str(os.getpid()), socket, str(os.getppid())],
        stdin=0,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _own_stdout() -> Tell:
    """Takes stdout for the reports, and gives whatever prints stderr in its place."""
    descriptor = os.dup(1)
    os.dup2(2, 1)

    def tell(report: Report) -> None:
        os.write(descriptor, to_line(report))

    return tell


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def run(spec: ProcessSpec, tell: Tell) -> int:
    """Load the engine and serve it until SIGTERM; the exit status."""
    try:
        await _serve(spec, tell)
    except EngineError as error:
        tell(Unfit(error.engine, error.code, error.message[:MOST_CHARACTERS]))
    except Exception as error:
        logger.exception("the engine cannot be used")
        told = f"{error!r}: see the log of {spec.place}"
        tell(Unfit(spec.engine.name, "failed", told[:MOST_CHARACTERS]))
    else:
        return 0
    return 1


async def _serve(spec: ProcessSpec, tell: Tell) -> None:
    tell(Progress(f"imports {spec.engine.module}"))
    engine = make_engine(spec.engine)
    try:
        tell(Progress("warms up"))
        await engine.warm_up()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await EngineServer(engine, spec).serve(stop, lambda: tell(Ready()))
    finally:
        await engine.close()


def make_engine(spec: EngineSpec) -> Engine[Any, Any]:
    """The engine of ``spec``, which has loaded nothing yet. Raises EngineError."""
    module = _module(spec)
    from engines.models import ModelStore  # takes longer than all the rest

    folder = Path(spec.models_dir).expanduser() if spec.models_dir else None
    engine: Engine[Any, Any] = module.create(options_of(module.Options, spec), ModelStore(folder))
    return engine


def _module(spec: EngineSpec) -> ModuleType:
    try:
        module = importlib.import_module(spec.module)
    except ModuleNotFoundError as error:
        told = f"{spec.module} needs the module {error.name}, which cannot be found: install it"
        if error.name is not None and spec.module.startswith(error.name):
            told = f"there is no module {error.name}: see the engine's name, and PYTHONPATH"
        raise EngineError(spec.name, "failed", told) from error
    if not (hasattr(module, "create") and hasattr(module, "Options")):
        raise EngineError(
            spec.name,
            "failed",
            f"{spec.module} is no engine: it needs Options and create(options, models)",
        )
    return module


def options_of(kind: type[Any], spec: EngineSpec) -> Any:
    """The dataclass ``kind`` from the spec's plain values, text taken for numbers where numbers
    are wanted, and for a list where texts are. Raises EngineError."""
    hints = get_type_hints(kind, include_extras=True)
    names = [option.name for option in dataclasses.fields(kind)]
    _refuse_unknown(spec, names)
    values: Mapping[str, Any] = {
        name: _split(value) if hints[name] == tuple[str, ...] else value
        for name, value in spec.options.items()
    }
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise EngineError(spec.name, "failed", f"its options cannot be used: {error}") from error


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _refuse_unknown(spec: EngineSpec, names: list[str]) -> None:
    for name in spec.options:
        if name not in names:
            told = f"it has no option {name}.{nearest(name, names)}"
            raise EngineError(spec.name, "failed", told)


if __name__ == "__main__":
    main()
