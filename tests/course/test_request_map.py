"""The map of the engine, `solutions/tiny_llm/README.md`: what it names is there, and no stage is missing."""

import ast
import re
import tomllib

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.paths import ROOT, SOLUTION

LINES = (SOLUTION / "README.md").read_text(encoding="utf-8").splitlines()
ROWS = [re.findall(r"`([^`]+)`", line) for line in LINES if line.startswith("| ")]
NAMED = re.compile(r"[A-Z]\w+|\w+_\w+")  # a class or a function


def test_every_file_of_the_map_is_there():
    files = [name for row in ROWS for name in row if "." in name]
    assert len(files) > 20
    assert [name for name in files if not (SOLUTION / name).is_file()] == []


def test_every_class_and_function_of_the_map_is_in_a_file_of_its_row_or_in_what_that_imports():
    for row in ROWS:
        texts = [(SOLUTION / name).read_text(encoding="utf-8") for name in row if name.endswith(".py")]
        there = {name for text in texts for name in _names(text)}
        assert {name for name in row if NAMED.fullmatch(name)} <= there


def test_every_stage_is_in_the_map_in_its_order():
    course = load_course()
    stages = [each.name for each in (*course.stages(), *course.modes(), *course.engines())]
    assert [row[0] for row in ROWS if row and "." not in row[0] and not NAMED.fullmatch(row[0])] == stages


def test_the_rooms_stand_in_the_order_that_the_contract_holds():
    """Every room of week 2 and later that the map's last sentence names is a folder."""
    sentence = " ".join(LINES).partition("imports only rooms below it:")[2]
    rooms = re.findall(r"`(\w+)`", sentence.partition(".")[0])
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(each["layers"] for each in contract["contracts"] if each.get("containers") == ["tiny_llm"])
    order = [room for layer in layers for room in layer.split(" | ")]
    assert rooms == [room for room in order if room in rooms]


def _names(text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return found
