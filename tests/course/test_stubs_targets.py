"""Which task a body belongs to, how its title is written, and which targets and markers are refused."""

import re

import pytest

from tiny_llm_course.course.entities import Target, Task
from tiny_llm_course.source.stubs.source import stub_source


def task(task_id: str, title: str = "Thing") -> Task:
    return Task(task_id, title, Target("module", "name"), "tests", (), 10, 1, (), (), 1, 1)


def stub(source: str, *targets: str) -> str:
    return stub_source(source, dict.fromkeys(targets, task("1.1.1")))


def test_a_method_of_another_task_than_its_class() -> None:
    source = "class C:\n    def f(self): ...\n\n    def _g(self): ...\n\n    def h(self): ...\n"
    stubbed = stub_source(source, {"C": task("1.1.1"), "C._g": task("1.1.2", "Other")})
    assert re.findall(r'def (\w+).*\n.*"(.*)"', stubbed) == [
        ("f", "1.1.1 Thing"),
        ("_g", "1.1.2 Other"),
        ("h", "1.1.1 Thing"),
    ]


@pytest.mark.parametrize(
    ("title", "literal"),
    [("It's", '"1.1.1 It\'s"'), ('A "b"', "'1.1.1 A \"b\"'"), ("a\\b", r'"1.1.1 a\\b"'), ("é", '"1.1.1 é"')],
)
def test_the_title_is_quoted_as_the_formatter_would(title: str, literal: str) -> None:
    stubbed = stub_source("def f():\n    return 1\n", {"f": task("1.1.1", title)})
    assert stubbed == f"def f():\n    raise NotImplementedError({literal})\n"


@pytest.mark.parametrize("target", ["g", "f.inner", "x", "C.g"])
def test_a_target_that_is_not_there(target: str) -> None:
    source = "x = 1\n\n\ndef f():\n    def inner(): ...\n\n\nclass C:\n    def f(self): ...\n"
    with pytest.raises(ValueError, match=f"there is no {target}, which is a target of 1.1.1"):
        stub(source, target)


def test_a_class_without_methods_cannot_be_a_target() -> None:
    with pytest.raises(ValueError, match=r"C, a target of 1\.1\.1, has no method to write"):
        stub("class C:\n    x: int\n\n    def _f(self): ...\n", "C")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("# --- your code\n    pass", "line 2: '# --- your code' without '# --- end'"),
        ("# --- end\n    pass", "line 2: '# --- end' where '# --- your code' is due"),
        ("# --- your code\n    # --- your code\n    pass", "line 3: '# --- your code' where '# --- end' is due"),
        (
            "# --- your code\n    # --- end\n    # --- end\n    pass",
            "line 4: '# --- end' where '# --- your code' is due",
        ),
        ("pass\n# --- your code", "line 3: '# --- your code' is in the body of no target"),
        ("if 1:\n        # --- your code\n        x = 1\n    # --- end\n    y", None),
        (
            "if 1:\n        x\n    # --- your code\n    elif 2:\n        # --- end\n        y",
            "of the stub does not parse",
        ),
    ],
)
def test_markers_must_come_in_pairs(body: str, complaint: str | None) -> None:
    source = f"def f():\n    {body}\n"
    if complaint is None:
        assert "x = 1" not in stub(source, "f")
    else:
        with pytest.raises(ValueError, match=re.escape(complaint)):
            stub(source, "f")


def test_markers_in_code_that_nobody_writes() -> None:
    with pytest.raises(ValueError, match="line 2: '# --- your code' is in the body of no target"):
        stub("def g():\n    # --- your code\n    # --- end\n    return 1\n\n\ndef f(): ...\n", "f")
