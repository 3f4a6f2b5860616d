"""Files that include others: which goes over which, and what is said of one that cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest

from voice.config import Config, ConfigError, EngineConfig, load


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return write


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return str(caught.value)


def test_a_file_goes_over_those_that_it_includes_section_by_section(
    write: Callable[..., Path],
) -> None:
    write("capacity.toml", '[admission]\nmax_calls = 12\nwaiting = 3\n[llm]\nengine = "openai"')
    write("more.toml", "[admission]\nwaiting = 4\n[server]\nport = 1")
    path = write(
        "voice.toml",
        """
        include = ["capacity.toml", "more.toml"]
        [server]
        port = 2
        [llm]
        model = "mine"
        """,
    )
    config = load(path, {"VOICE_ADMISSION_WAIT_S": "7"})
    assert (config.admission.max_calls, config.admission.waiting) == (12, 4)
    assert (config.admission.wait_s, config.server.port) == (7, 2)
    assert config.llm == EngineConfig("openai", {"model": "mine"})


def test_what_a_file_includes_lies_beside_it(write: Callable[..., Path]) -> None:
    write("site/capacity.toml", "[admission]\nmax_calls = 12")
    write("site/all.toml", 'include = ["capacity.toml"]')
    absolute = write("absolute.toml", "[server]\nport = 9")
    path = write("voice.toml", f'include = ["site/all.toml", "{absolute}"]')
    config = load(path)
    assert (config.admission.max_calls, config.server.port) == (12, 9)


def test_what_holds_together_only_with_the_other_file_is_no_fault(
    write: Callable[..., Path],
) -> None:
    write("shares.toml", "[tenants.acme]\nshare = 0.5")
    path = write("voice.toml", 'include = ["shares.toml"]\n[tenants.acme]\nkeys = ["k"]')
    assert load(path).tenants["acme"].share == 0.5
    assert "tenants.acme.keys: there is none" in refusal(path.parent / "shares.toml")


def test_a_file_may_be_included_twice(write: Callable[..., Path]) -> None:
    write("a.toml", "[server]\nport = 9")
    write("b.toml", 'include = ["a.toml"]')
    assert load(write("voice.toml", 'include = ["a.toml", "b.toml"]')).server.port == 9


def test_to_include_nothing_changes_nothing(write: Callable[..., Path]) -> None:
    assert load(write("voice.toml", "include = []")) == Config()


def test_an_included_file_that_is_missing_is_named_with_the_one_that_wants_it(
    write: Callable[..., Path],
) -> None:
    path = write("voice.toml", 'include = ["capacity.toml"]')
    missing = path.parent / "capacity.toml"
    assert refusal(path) == f"{path}: include: {missing}: cannot be read: No such file or directory"


def test_an_included_file_that_is_no_toml_is_named(write: Callable[..., Path]) -> None:
    wrong = write("capacity.toml", "[admission")
    path = write("voice.toml", 'include = ["capacity.toml"]')
    assert refusal(path).startswith(f"{path}: include: {wrong}: is not TOML: ")


def test_a_link_that_leads_to_itself_is_named(write: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "link.toml").symlink_to("link.toml")
    path = write("voice.toml", 'include = ["link.toml"]')
    assert "link.toml: cannot be read: Too many levels of symbolic links" in refusal(path)


def test_lists_in_lists_without_end_are_no_toml(write: Callable[..., Path]) -> None:
    assert "is not TOML: maximum recursion" in refusal(write("voice.toml", "a = " + "[" * 9_999))


def test_settings_that_are_not_known_are_told_with_their_file(write: Callable[..., Path]) -> None:
    wrong = write("capacity.toml", "[admission]\nmax_call = 1\n[servr]\nport = 1")
    path = write("voice.toml", 'include = ["capacity.toml"]')
    assert refusal(path).splitlines() == [
        f"{path}: include: {wrong}: admission.max_call: there is no such setting."
        " Did you mean admission.max_calls?",
        f"{path}: include: {wrong}: servr: there is no such setting. Did you mean server?",
    ]


def test_a_fault_deep_down_is_told_with_the_whole_way_to_it(write: Callable[..., Path]) -> None:
    deep = write("deep.toml", "[admission]\nmax_calls = 0")
    middle = write("middle.toml", 'include = ["deep.toml"]')
    path = write("voice.toml", 'include = ["middle.toml"]')
    assert refusal(path).startswith(
        f"{path}: include: {middle}: include: {deep}: admission.max_calls: must be a whole number"
    )


def test_a_file_that_includes_itself_is_refused(write: Callable[..., Path]) -> None:
    path = write("voice.toml", 'include = ["./voice.toml"]')
    assert refusal(path) == f"{path}: include: {path} includes itself"
    other = write("other.toml", 'include = ["round.toml"]')
    write("round.toml", 'include = ["other.toml"]')
    assert refusal(other).endswith("other.toml includes itself")


@pytest.mark.parametrize("value", ['"capacity.toml"', "1", "[1]", "{ a = 1 }"])
def test_include_is_a_list_of_files(write: Callable[..., Path], value: str) -> None:
    path = write("voice.toml", f"include = {value}")
    assert refusal(path) == f'{path}: include: is a list of files: include = ["capacity.toml"]'
