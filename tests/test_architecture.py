"""Rules of docs/design.md that no linter holds: sizes, mirrored tests, nothing of one's machine."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("voice", "pipelines", "engines", "clients", "loadtest")
MOST_LINES_OF_A_FILE = 399
MOST_LINES_OF_A_FUNCTION = 50

NOT_MIRRORED = {
    "engines/catalogue.py": "a table; tests/engines/test_models.py holds the store to it",
    "engines/clips.py": "a table, part of the catalogue",
    "engines/ports.py": "types that say what an engine is",
    "engines/diarization/turns.py": "types that say who speaks when",
    "engines/asr/scripted.py": "names of engines/scripted.py, which has its test",
    "engines/llm/scripted.py": "names of engines/scripted.py, which has its test",
    "engines/tts/scripted.py": "names of engines/scripted.py, which has its test",
    "loadtest/caller.py": "part of server_bench",
    "loadtest/diarization_bench.py": "a benchmark: it judges its own recordings",
    "loadtest/echo_bench.py": "a benchmark: it judges its own replies",
    "loadtest/interruption_bench.py": "a benchmark: it judges its own trials",
    "loadtest/snac_bench.py": "a benchmark: it compares with the offline decoder by itself",
    "loadtest/memory_bench.py": "a benchmark: it compares with brute force by itself",
    "loadtest/memory_calls.py": "part of memory_bench",
    "loadtest/refusal_bench.py": "a benchmark: it judges its own run",
    "loadtest/server_bench.py": "a benchmark: `make bench` runs it, and it checks its own run",
    "loadtest/server_process.py": "part of both benchmarks of the server",
    "loadtest/vad_bench.py": "a benchmark: it compares with the ONNX file by itself",
    "pipelines/conversation/events.py": "types that say what happens in a call",
    "pipelines/conversation/leaning_words.py": "a table; test_completeness.py holds it",
    "pipelines/conversation/number_words.py": "a table; test_dictation.py holds it",
    "pipelines/conversation/ports.py": "types that say what a call needs",
    "pipelines/conversation/recalled.py": "types that say what was looked up",
    "pipelines/memory/parts.py": "the type of what documents are taken apart into",
    "pipelines/memory/settings.py": "a section of the configuration; test_lookup.py goes by it",
    "pipelines/places.py": "types that say where work may wait",
    "pipelines/strain.py": "names of the steps; tests/voice/test_overload.py climbs them",
}

# Put together here, so that this file passes its own test.
FOREIGN = [
    *(re.escape(host) for host in ("pypi" + ".org", "python" + "hosted.org", "npm" + "js.")),
    *(re.escape(host) for host in ("deb." + "debian.org", "proxy." + "golang.org")),
    r"\.\./" + "shared",
    r"(?<![\w.])/(?:work|root|home|Users)/" + r"\w",
]


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_there_is_something_to_look_at() -> None:
    assert len(sources()) > 50
    assert sum(1 for path in sources() for _ in functions(path)) > 500


def test_no_file_is_long() -> None:
    lengths = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in sources()}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES_OF_A_FILE} == {}


def test_no_function_is_long() -> None:
    lengths = {
        f"{name_of(path)}:{function.lineno} {function.name}": function.end_lineno
        - function.lineno
        + 1
        for path in sources()
        for function in functions(path)
        if function.end_lineno is not None
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES_OF_A_FUNCTION} == {}


def test_each_module_has_its_test() -> None:
    missing = [
        name_of(path)
        for path in sources()
        if path.name != "__init__.py"
        and name_of(path) not in NOT_MIRRORED
        and not mirror(path).is_file()
    ]
    assert missing == []


def test_each_exception_is_still_one() -> None:
    for name in NOT_MIRRORED:
        assert (ROOT / name).is_file()
        assert not mirror(ROOT / name).is_file()


def test_every_package_that_is_imported_is_named_by_the_project() -> None:
    """What only comes along with another, or with the tests, is missing for somebody."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for extra, each in project["optional-dependencies"].items() if extra != "dev"]
    named = {plain(each) for each in sum(extras, project["dependencies"])}
    brought = packages_distributions()
    own = [path for path in sources() if "peers" not in path.parts]  # these have environments
    imported = {name for path in own for name in imports(path)} - sys.stdlib_module_names
    unnamed = {
        name: brought[name]
        for name in imported - set(PACKAGES) - {"tests"}
        if name in brought and not named & set(map(plain, brought[name]))
    }
    assert unnamed == {}


def plain(requirement: str) -> str:
    """The name of a distribution as it is compared."""
    return re.sub(r"[._-]+", "-", re.split(r"[^\w.-]", requirement)[0]).casefold()


class _RunOnly(ast.NodeTransformer):
    """Without what is for type checkers alone."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else node


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(_RunOnly().visit(ast.parse(path.read_text()))):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def mirror(path: Path) -> Path:
    return ROOT / "tests" / path.relative_to(ROOT).with_name(f"test_{path.name}")


def test_no_file_names_a_registry_or_a_place_on_ones_own_machine() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no telling which files are ours")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    foreign = re.compile("|".join(FOREIGN))
    found = []
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{name}: {match[0]}" for match in foreign.finditer(text)]
    assert found == []
