"""The images' files, as far as they can be proven where no Docker runs: linted, and what they copy
and run is there; the CPU image's own build steps are run in a folder in place of its root."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("Dockerfile*"))
HADOLINT = Path(sys.executable).with_name("hadolint")


def instructions(file: Path) -> Iterator[tuple[str, str]]:
    """Keyword and rest of each instruction, its lines joined."""
    text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        keyword, _, rest = line.strip().partition(" ")
        if keyword:
            yield keyword, rest


def stages(file: Path) -> list[list[tuple[str, str]]]:
    """The instructions of each stage."""
    found: list[list[tuple[str, str]]] = []
    for keyword, rest in instructions(file):
        if keyword == "FROM":
            found.append([])
        if found:
            found[-1].append((keyword, rest))
    return found


def sources(file: Path) -> Iterator[str]:
    """What an image takes from the checkout."""
    for keyword, rest in instructions(file):
        if keyword == "COPY" and not rest.startswith("--from"):
            yield from rest.split()[:-1]


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_the_linter_finds_nothing(file: Path) -> None:
    done = subprocess.run([HADOLINT, "--no-color", file], capture_output=True, text=True)
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_what_is_copied_is_there_and_not_ignored(file: Path) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert lines[1] == "*"
    for source in sources(file):
        assert (ROOT / source).exists()
        assert source in kept


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_the_image_runs_as_nobody_that_matters_and_says_how_it_is(file: Path) -> None:
    last = stages(file)[-1]
    users = [rest for keyword, rest in last if keyword == "USER"]
    assert users
    assert all(re.fullmatch(r"10001(:10001)?", user) for user in users)
    [(_, check)] = [each for each in last if each[0] == "HEALTHCHECK"]
    command = json.loads(check[check.index("[") :])
    compile(command[-1], "health check", "exec")
    assert ":8080/ready" in command[-1]
    assert ("EXPOSE", "8080") in last
    [(_, started)] = [each for each in last if each[0] == "CMD"]
    assert json.loads(started)[:2] == ["voice", "serve"]


def test_the_cpu_image_installs_no_torch() -> None:
    installed = [
        rest for keyword, rest in instructions(DOCKER / "Dockerfile") if "pip install" in rest
    ]
    assert installed == ["/opt/antiphon/bin/pip install --no-cache-dir '.[traces]'"]


@dataclass
class Build:
    """Carries out a stage's instructions, ``root`` standing for the container's root."""

    root: Path
    where: Path
    variables: dict[str, str]

    def here(self, text: str) -> str:
        """A path of the container's as it is here."""
        return re.sub(r"(?<![\w.])/(opt|src|etc)\b", rf"{self.root}/\1", text)

    def copy(self, rest: str) -> None:
        *copied, target = rest.split()
        for each in copied:
            if (ROOT / each).is_dir():
                shutil.copytree(ROOT / each, self.where / target)
            else:
                shutil.copy(ROOT / each, self.where / target)

    def enter(self, rest: str) -> None:
        self.where = Path(self.here(rest))
        self.where.mkdir(parents=True)

    def define(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.variables[name] = self.here(value.strip('"'))

    def run(self, rest: str) -> None:
        step = self.here(rest).replace("python -m venv", f"{sys.executable} -m venv")
        shell = ["/bin/sh", "-c", step]
        subprocess.run(shell, cwd=self.where, env=self.variables, check=True)

    def follow(self, stage: list[tuple[str, str]]) -> None:
        carry_out = {"COPY": self.copy, "WORKDIR": self.enter, "RUN": self.run}
        carry_out |= {"ENV": self.define, "ARG": self.define, "FROM": lambda _: None}
        for keyword, rest in stage:
            carry_out[keyword](rest)


@pytest.mark.network
@pytest.mark.slow
def test_the_cpu_images_own_steps_make_a_server_that_gets_ready(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in ("opt", "etc/antiphon"):
        (root / folder).mkdir(parents=True)
    (root / "etc/antiphon/voice.toml").touch()
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    build, last = stages(DOCKER / "Dockerfile")
    building = Build(root, root, variables)
    building.follow(build)
    assert _packages(root) & {"torch", "triton", "transformers"} == set()
    [(_, command)] = [each for each in last if each[0] == "CMD"]
    words = [building.here(word) for word in json.loads(command)]
    _gets_ready(words, root, variables)


def _packages(root: Path) -> set[str]:
    done = subprocess.run(
        [root / "opt/antiphon/bin/python", "-m", "pip", "list", "--format=json"],
        capture_output=True, check=True,
    )  # fmt: skip
    return {package["name"].lower() for package in json.loads(done.stdout)}


def _gets_ready(command: list[str], root: Path, variables: dict[str, str]) -> None:
    """With the models that the image has, a port of its own, and a key, as it must have one."""
    variables = variables | {"VOICE_API_KEYS": "k", "VOICE_SERVER_PORT": "0"}
    process = subprocess.Popen(
        [root / "opt/antiphon/bin" / command[0], *command[1:]],
        env=variables, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as told:
        lines = []
        for line in told:
            lines.append(line)
            if line.startswith("READY"):
                break
        process.send_signal(signal.SIGTERM)
        told.read()
    process.wait(30)
    assert any(line.startswith("READY") for line in lines), lines
