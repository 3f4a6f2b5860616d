"""docs/field.md: what goes wrong in calls is held by the tests that it names."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
ROWS = ROW.findall((ROOT / "docs" / "field.md").read_text("utf-8"))


def defined_in(name: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / name).read_bytes())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_each_way_is_told_once_and_in_order() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 26))


def test_each_way_is_held_by_a_test() -> None:
    for number, _, _, held_by in ROWS:
        assert TEST.findall(held_by), number
        assert TEST.sub("", held_by).strip(", ") == "", f"{number}: not the name of a test"


def test_each_test_that_is_named_is_there() -> None:
    named = {pair for *_, held_by in ROWS for pair in TEST.findall(held_by)}
    files = {file for file, _ in named}
    assert {file for file in files if not (ROOT / "tests" / file).is_file()} == set()
    there = {(file, name) for file in files for name in defined_in(file)}
    assert named - there == set()
