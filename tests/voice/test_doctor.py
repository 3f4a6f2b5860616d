"""What the doctor finds, on machines and with engines that are made up."""

import functools
import hashlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from engines.catalogue import Model, ModelFile
from engines.models import ModelStore
from engines.placement import Gpu, Inventory, Slice
from engines.ports import EngineError
from voice import app, doctor, packages
from voice.config import ConfigError, load
from voice.doctor import Report, examine

NO_GPU = Inventory(reason="no driver")
H200 = Inventory(
    (
        Gpu(
            0, "GPU-a", "NVIDIA H200", 143771, mig=True, most_slices=7,
            slices=tuple(Slice(0, n, f"MIG-{n}", "1g.18gb", 16384, 1, n) for n in range(2)),
        ),
    ),
    driver="580.95.05",
)  # fmt: skip
SCRIPTED = (
    "server.port=0",
    "end_of_turn.engine=none",
    *(f"{kind}.engine=scripted" for kind in ("asr", "llm", "tts")),
)


@dataclass(frozen=True)
class Options:
    source: str = ""
    model: str = ""
    fails: str = ""


@dataclass(frozen=True)
class GpuOptions(Options):
    device: str = "cuda"


@dataclass(frozen=True)
class WireOptions(Options):
    base_url: str = ""
    api_key: str = ""


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Modules of engines: ``made_up.gpu``, ``made_up.ears`` that needs no model, ``made_up.wire``
    that calls a server. What was made and closed."""
    story: list[str] = []

    async def close() -> None:
        story.append("closed")

    def create(options: Options, models: object) -> SimpleNamespace:
        if options.fails == "package":
            raise ImportError("no libwhatever.so")
        if options.fails == "bug":
            raise KeyError("oh")
        if options.fails:
            raise EngineError("gpu", "unavailable", options.fails)
        story.append("made")
        return SimpleNamespace(close=close)

    for name, options in (
        ("made_up", Options),
        ("made_up.gpu", GpuOptions),
        ("made_up.ears", Options),
        ("made_up.wire", WireOptions),
    ):
        module = ModuleType(name)
        vars(module).update(Options=options, create=create)
        monkeypatch.setitem(sys.modules, name, module)
    return story


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The optional packages that are installed."""
    known = {"torch": "2.9.0", "snac": "1.2.1", "nvidia-ml-py": "13"}
    for module in (doctor, packages):
        monkeypatch.setattr(module, "version_of", lambda name: known.get(name, ""))
    return known


def look(*settings: str, there: Inventory = NO_GPU) -> Report:
    return examine(load(settings=("vad.engine=made_up.ears", *SCRIPTED, *settings)), there)


def texts(report: Report) -> list[str]:
    return [problem.text for problem in report.problems]


def engine(report: Report, kind: str) -> doctor.Engine:
    return next(engine for engine in report.engines if engine.kind == kind)


def test_a_machine_with_all_that_is_needed_would_start(versions, made) -> None:
    report = look()
    assert report.starts
    assert report.problems == ()
    assert [(e.kind, e.name, e.places, e.ready) for e in report.engines] == [
        ("vad", "made_up.ears", (), True),
        *((kind, "scripted", (), True) for kind in ("asr", "llm", "tts")),
    ]
    assert report.machine.cores >= 1
    assert report.machine.memory_mib > 100
    assert report.machine.python.count(".") == 2


def test_engines_are_made_as_the_server_would_and_let_go(versions, made) -> None:
    assert look("tts.engine=made_up.gpu", "tts.device=cpu").starts
    assert made == ["made", "made", "closed"]  # the ears have nothing to close


def test_models_that_are_missing_are_fetched_by_one_command(tmp_path: Path, versions) -> None:
    report = examine(load(settings=("server.port=0", f"models_dir={tmp_path}")), NO_GPU)
    [problem] = report.problems
    assert problem.text == "4 models are not in place"
    [command] = problem.commands
    assert command == (
        "voice models pull silero-vad smart-turn-v3.2 moonshine-tiny-en smollm2-135m"
        f" --folder {tmp_path}"
    )
    assert [(e.kind, e.ready) for e in report.engines] == [
        ("vad", False), ("end_of_turn", False), ("asr", False), ("llm", False), ("tts", True),
    ]  # fmt: skip
    assert engine(report, "asr").models == (doctor.ModelState("moonshine-tiny-en", "missing"),)
    assert report.models_dir == str(tmp_path)


def test_a_model_that_was_altered_is_damaged(tmp_path: Path, versions) -> None:
    folder = tmp_path / "smollm2-135m"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(b"no weights")
    report = look("llm.engine=smollm2", f"models_dir={tmp_path}")
    assert engine(report, "llm").models == (doctor.ModelState("smollm2-135m", "damaged"),)
    assert [problem.text for problem in report.problems] == ["1 model is not in place"]


def test_a_model_in_place_is_ready(tmp_path: Path, versions, monkeypatch) -> None:
    file = ModelFile("a.bin", 7, hashlib.sha256(b"weights").hexdigest(), (b"weights",))
    known = {"here": Model("here", "a test", "MIT", (file,))}
    monkeypatch.setattr(doctor, "ModelStore", functools.partial(ModelStore, catalogue=known))
    ModelStore(tmp_path, known).pull(["here"])
    settings = ("llm.engine=made_up.ears", "llm.model=here", f"models_dir={tmp_path}")
    assert engine(look(*settings), "llm").models == (doctor.ModelState("here", "ready"),)


def test_a_model_of_ones_own_is_a_folder_and_another_a_name(tmp_path: Path, versions) -> None:
    for model, state in (
        (str(tmp_path), "folder"),
        ("somebody/some-model", "named"),
        (f"{tmp_path}/gone", "no folder"),
    ):
        report = look("tts.engine=made_up.gpu", f"tts.model={model}", there=H200)
        assert engine(report, "tts").models == (doctor.ModelState(model, state),)
    assert texts(report) == [
        f"tts: there is no folder {tmp_path}/gone: see to the path, or mount it"
    ]
    assert not engine(report, "tts").ready


def test_a_plan_that_works_has_processes_and_needs_their_packages(versions) -> None:
    report = look("placement.asr=1g.18gb,1g.18gb", "placement.llm=cpu", there=H200)
    assert report.starts
    assert engine(report, "asr").places == ("1g.18gb", "1g.18gb")
    needed = {package.name: package.needed_by for package in report.packages}
    assert needed["nvidia-ml-py"] == ("asr",)
    assert needed["torch"] == ()


def test_a_plan_half_made_tells_the_command_that_makes_the_rest(versions) -> None:
    report = look("placement.asr=1g.18gb", "placement.tts=3g.71gb", there=H200)
    assert not report.starts
    [problem] = report.problems
    assert problem.text == "placement: tts on 3g.71gb: there is none"
    assert problem.commands == (
        "# To make it on GPU 0 (NVIDIA H200):",
        "sudo nvidia-smi mig -i 0 -cgi 3g.71gb -C",
    )
    assert engine(report, "asr").ready
    assert not engine(report, "tts").ready


def test_a_plan_without_a_gpu_says_why_there_is_none(versions) -> None:
    [text] = texts(look("placement.asr=1g.18gb"))
    assert text == "placement: asr on 1g.18gb: there is no GPU. No GPU: no driver"


def test_packages_that_a_plan_needs_and_lacks_are_told(versions) -> None:
    del versions["nvidia-ml-py"]
    report = look("placement.asr=1g.18gb", there=H200)
    [text] = texts(report)
    assert text.startswith("asr: the package nvidia-ml-py is missing: `")
    assert text.endswith("-m pip install nvidia-ml-py`")
    assert not engine(report, "asr").ready


def test_an_engine_for_a_gpu_needs_one(versions) -> None:
    assert texts(look("tts.engine=made_up.gpu")) == [
        "tts: made_up.gpu needs a GPU, and there is none: no driver"
    ]
    assert texts(look("tts.engine=made_up.gpu", "placement.tts=cpu", there=H200)) == [
        "tts: made_up.gpu needs a GPU, and it is placed on cpu"
    ]
    assert look("tts.engine=made_up.gpu", there=H200).starts


def test_a_package_that_keeps_an_engine_from_being_imported_is_told_once(
    versions, monkeypatch
) -> None:
    def fail(kind, section) -> None:
        cause = ModuleNotFoundError("No module named 'torch'", name="torch")
        raise ConfigError("tts.engine: orpheus needs the package torch") from cause

    module = app.engine_module
    monkeypatch.setattr(
        app,
        "engine_module",
        lambda kind, s: fail(kind, s) if s.engine == "orpheus" else module(kind, s),
    )
    del versions["torch"]
    report = look("tts.engine=orpheus", there=H200)
    [text] = texts(report)
    assert text.startswith("tts: the package torch is missing: `")
    assert "[orpheus]" in text
    assert not engine(report, "tts").ready


def test_a_torch_built_for_cpus_is_no_use_on_a_gpu(versions, monkeypatch) -> None:
    monkeypatch.setattr(packages, "_NEEDS", {"tts.made_up.gpu": ("torch",)})
    versions["torch"] = "2.9.0+cpu"
    [text] = texts(look("tts.engine=made_up.gpu", there=H200))
    assert "torch 2.9.0+cpu is built for CPUs" in text


@pytest.mark.parametrize(
    ("version", "said"),
    [("", "is missing"), ("1.2.1", "1.2.1 is too old"), ("1.3.0rc26", ""), ("of no known", "")],
)
def test_tensorrt_llm_must_be_there_and_new(versions, version: str, said: str) -> None:
    versions["tensorrt_llm"] = version
    found = texts(look("tts.engine=made_up.gpu", "tts.source=trtllm", there=H200))
    assert len(found) == bool(said)
    assert all(said in text and "container" in text for text in found)


def test_an_engine_that_cannot_be_made_says_why(versions) -> None:
    settings = ("tts.engine=made_up.gpu", "tts.device=cpu")
    assert texts(look(*settings, "tts.fails=no such voice")) == ["gpu: no such voice"]
    assert texts(look(*settings, "tts.fails=package")) == [
        "tts: made_up.gpu cannot be made: no libwhatever.so"
    ]


def test_an_engine_that_has_a_bug_leaves_the_rest_of_the_report(versions) -> None:
    report = look("tts.engine=made_up.ears", "tts.fails=bug", "server.host=0.0.0.0")
    assert texts(report)[1] == (
        "tts: made_up.ears cannot be made, by a bug of its own: KeyError('oh')"
    )
    assert len(texts(report)) == 2


def test_a_models_dir_that_is_a_file_is_told_once(tmp_path: Path, versions) -> None:
    (tmp_path / "f").touch()
    report = look(f"models_dir={tmp_path}/f", "asr.engine=moonshine")
    assert texts(report) == [f"models_dir: Not a directory: {tmp_path}/f: name a folder"]
    assert not engine(report, "asr").ready


def test_an_engine_that_is_shared_must_be_there_and_is_not_looked_into(
    tmp_path_factory: pytest.TempPathFactory, versions
) -> None:
    path = tmp_path_factory.mktemp("d") / "tts"
    settings = (f"placement.tts=ipc://{path}", "tts.engine=made_up.gpu", "tts.nothing=1")
    [problem] = look(*settings).problems
    assert problem.text.startswith(f"tts: no engine process listens at ipc://{path}")
    assert problem.commands == (f"voice engine tts ipc://{path}",)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        report = look(*settings)
    assert report.starts
    assert engine(report, "tts").places == (f"ipc://{path}",)


def test_a_setting_that_is_not_known_is_told_with_the_rest(versions) -> None:
    report = look("asr.engine=nothing", "llm.delay=1")
    assert [text.split(":")[0] for text in texts(report)] == ["asr.engine", "llm.delay"]
    assert engine(report, "asr").models == ()


def test_a_server_open_to_all_would_not_start(versions) -> None:
    [text] = texts(look("server.host=0.0.0.0"))
    assert "VOICE_API_KEYS" in text


def test_a_port_that_is_taken_is_in_the_way(versions) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        [text] = texts(look(f"server.port={port}"))
    assert text.startswith(f"cannot listen on 127.0.0.1:{port}: ")


@pytest.fixture
def own_server() -> Iterator[int]:
    """The port of what answers as a server of ours does."""
    answers = {"/health": b'{"status": "ok"}', "/ready": b'{"status": "loading"}'}

    class Ours(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answers[self.path])

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Ours) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_server_of_ones_own_is_known_and_in_nobody_s_way(versions, own_server: int) -> None:
    report = look(f"server.port={own_server}")
    assert (report.running, report.problems) == (f"http://127.0.0.1:{own_server}", ())
    assert report.starts


def test_an_index_that_is_of_no_use_is_in_the_way(versions, tmp_path: Path) -> None:
    settings = ("embedding.engine=scripted", f"memory.index={tmp_path / 'gone'}")
    assert texts(look(*settings)) == [
        f"memory: {tmp_path / 'gone'}: is not there: make it by `voice index DIR`"
    ]
    (tmp_path / "words").write_text("no index " * 1000)
    [text] = texts(look("embedding.engine=scripted", f"memory.index={tmp_path / 'words'}"))
    assert "is no index" in text


@pytest.fixture
def model_server() -> Iterator[Callable[[int], str]]:
    """Starts a server that answers every request with a status; gives its base_url."""
    with ExitStack() as stack:

        def start(status: int) -> str:
            class Answers(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response(status)
                    self.end_headers()

                def log_message(self, *said: object) -> None:
                    pass

            server = stack.enter_context(HTTPServer(("127.0.0.1", 0), Answers))
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}/v1"

        yield start


@pytest.mark.parametrize(
    ("status", "said"),
    [(200, ""), (404, ""), (401, "refuses the key (HTTP 401)"), (503, "answers HTTP 503")],
)
def test_a_server_that_an_engine_calls_must_answer(
    versions, model_server: Callable[[int], str], status: int, said: str
) -> None:
    url = model_server(status)
    found = texts(look("llm.engine=made_up.wire", f"llm.base_url={url}", "llm.api_key=k"))
    assert len(found) == bool(said)
    assert all(text.startswith(f"llm: {url} ") and said in text for text in found)


def test_a_server_that_is_down_is_in_the_way_of_those_who_call_it(versions) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    settings = ("tts.engine=made_up.wire", f"tts.base_url={url}")
    [text] = texts(look(*settings))
    assert text.startswith(f"tts: nothing answers at {url} (")
    assert "[tts] base_url" in text
    assert not engine(look(*settings), "tts").ready
    assert len(texts(look(*settings, "tts.source=completions"))) == 1
    assert look(*settings, "tts.source=another").starts  # which takes its tokens elsewhere
    assert texts(look("tts.engine=made_up.wire", "tts.base_url=nonsense")) == [
        "tts: [tts] base_url must look like http://HOST:PORT/v1"
    ]


def test_all_that_is_wrong_in_a_configuration_is_told_apart() -> None:
    assert texts(examine(ConfigError("a: wrong\nb: wrong"), NO_GPU)) == ["a: wrong", "b: wrong"]


def test_a_configuration_that_cannot_be_read_is_one_problem_of_a_whole_report() -> None:
    report = examine(ConfigError("serverr: there is no such setting"), H200)
    assert not report.starts
    assert texts(report) == ["serverr: there is no such setting"]
    assert report.engines == ()
    assert report.inventory is H200
    assert len(report.packages) == len(packages.EXTRAS)


def test_a_port_of_audiosocket_that_is_taken_is_a_problem(versions) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        report = look(f"phone.audiosocket_port={port}")
        assert not report.starts
        [told] = texts(report)
        assert told.startswith(f"cannot listen on 127.0.0.1:{port} for AudioSocket: ")
    assert look(f"phone.audiosocket_port={port}").starts


def test_two_doors_cannot_share_a_port(versions) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    report = look(f"server.port={port}", f"phone.audiosocket_port={port}")
    assert "for AudioSocket" in texts(report)[0]


def test_phones_are_told_of_where_something_is_set_for_them(versions) -> None:
    assert look().phones is None
    phones = look("phone.greeting=Hello.").phones
    assert phones is not None
    assert phones.wires
