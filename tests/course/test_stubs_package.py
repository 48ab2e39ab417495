"""The generator on whole packages, on the course's own solution, and what it tells about signatures."""

import asyncio
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.course.checkouts import stubs_of_the_course

from tiny_llm_course.course.entities import Day, Target, Task, Week
from tiny_llm_course.course.registry import Course, load_course
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.source.package import differences, stub_package, write_stubs
from tiny_llm_course.source.stubs.signatures import listing, signatures

SOLVED = {
    "__init__.py": '"""The package."""\n',
    "basics.py": "def add(x, y):\n    return x + y\n",
    "deep/er.py": "from ..basics import add\n\n\ndef double(x):\n    return add(x, x)\n",
    "given.py": "import os\n",
    "notes.txt": "é\n",
}
STUBS = SOLVED | {
    "basics.py": 'def add(x, y):\n    raise NotImplementedError("1.1.1 Add")\n',
    "deep/er.py": 'from ..basics import add\n\n\ndef double(x):\n    raise NotImplementedError("1.1.2 Double")\n',
}


def make_course(*targets: str) -> Course:
    rest: tuple[Any, ...] = ((), (), 1, 1)
    tasks = (
        Task("1.1.1", "Add", Target.parse(targets[0]), "tests", (), 10, 1, *rest),
        Task("1.1.2", "Double", Target.parse(targets[1]), "tests", ("1.1.1",), 10, 1, *rest),
    )
    return Course((Week(1, "Week", (Day(1, 1, "Day", "day.md", tasks),)),))


COURSE = make_course("basics:add", "deep.er:double")


def write(directory: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")
    return directory


def test_every_file_of_the_package_is_there(tmp_path: Path) -> None:
    cache = {"__pycache__/given.pyc": "", ".hidden/x.py": "", ".hidden.py": ""}
    assert stub_package(write(tmp_path, SOLVED | cache), COURSE) == STUBS


def test_writing_changes_only_what_differs(tmp_path: Path) -> None:
    solution = write(tmp_path / "solution", SOLVED)
    learner = tmp_path / "learner"
    assert write_stubs(solution, learner, COURSE) == sorted(STUBS)
    assert write_stubs(solution, learner, COURSE) == []
    write(learner, {"given.py": "changed", "mine.py": "x = 1\n"})
    assert write_stubs(solution, learner, COURSE) == ["given.py"]
    assert (learner / "mine.py").read_text() == "x = 1\n"


def test_differences_are_named(tmp_path: Path) -> None:
    solution = write(tmp_path / "solution", SOLVED)
    learner = write(tmp_path / "learner", STUBS)
    assert differences(solution, learner, COURSE) == []
    (learner / "notes.txt").unlink()
    write(learner, {"extra.py": "", "basics.py": SOLVED["basics.py"], "given.py": "import os\nimport re\n"})
    assert differences(solution, learner, COURSE) == [
        "basics.py differs from the generated stub at line 2",
        "extra.py is not in the solution",
        "given.py differs from the generated stub at line 2",
        "notes.txt is missing",
    ]
    assert len(differences(solution, tmp_path / "nowhere", COURSE)) == len(STUBS)


def test_a_fault_in_the_solution_names_its_file(tmp_path: Path) -> None:
    write(tmp_path, SOLVED)
    with pytest.raises(ValueError, match=r"^deep/er\.py: there is no f, which is a target of 1\.1\.2$"):
        stub_package(tmp_path, make_course("basics:add", "deep.er:f"))
    with pytest.raises(ValueError, match=r"^there is no other\.py in .*, where the targets of 1\.1\.2 should be$"):
        stub_package(tmp_path, make_course("basics:add", "other:f"))


SOURCE = '''
class C(Base, metaclass=Meta):  # a comment
    """Class doc."""

    size = 3

    @property
    def width(
        self,
    ) -> int:
        """Method doc.

        More
            indented
        """
        return 1

    @width.setter
    def width(self, x): self.x = x

    class Inner:
        async def f(self, x: int = 1): ...

    def _private(self): ...


def f(x, *, y=None):
    def nested(): ...
'''


def test_signatures() -> None:
    found = signatures(SOURCE)
    assert found == {
        "C": ("Base, metaclass=Meta", None, (), "Class doc."),
        "C.width": ("self", "int", ("property",), "Method doc.\n\nMore\n    indented"),
        "C.width#2": ("self, x", None, ("width.setter",), None),
        "C.Inner": ("", None, (), None),
        "C.Inner.f": ("self, x: int=1", None, (), None),
        "C._private": ("self", None, (), None),
        "f": ("x, *, y=None", None, (), None),
    }


def test_a_listing_has_no_body_and_no_indentation() -> None:
    assert listing(SOURCE, "f") == "def f(x, *, y=None):\n"
    assert listing(SOURCE, "C.width") == (
        '@property\ndef width(\n    self,\n) -> int:\n    """Method doc.\n\n    More\n        indented\n    """\n'
        "@width.setter\ndef width(self, x):\n"
    )


def test_a_listing_of_a_class_has_its_public_methods() -> None:
    lines = listing(SOURCE, "C").splitlines()
    assert lines[:5] == [
        "class C(Base, metaclass=Meta):  # a comment",
        '    """Class doc."""',
        "",
        "    @property",
        "    def width(",
    ]
    assert lines[-4:] == ["", "    class Inner:", "", "        async def f(self, x: int = 1):"]


def test_a_listing_of_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="there is no g"):
        listing(SOURCE, "g")


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of the course's own generated package, under another name than a learner's."""
    name = "tiny_llm_generated"
    directory = tmp_path_factory.mktemp("generated")
    write(directory, stubs_of_the_course())
    spec = importlib.util.spec_from_file_location(name, directory / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    yield lambda module: importlib.import_module(f"{name}.{module}")
    for known in [known for known in sys.modules if known.split(".")[0] == name]:
        del sys.modules[known]


PYTHON = [task for task in load_course().tasks() if task.target.is_python]


@pytest.mark.parametrize("task", PYTHON, ids=lambda task: task.id)
def test_every_target_of_the_course_says_that_it_is_not_written(
    learner: Callable[[str], ModuleType], task: Task
) -> None:
    functions = list(_functions(learner(task.target.module), task.target.name))
    assert functions
    for function in functions:
        required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        by_name = [p.name for p in required if p.kind is p.KEYWORD_ONLY]
        with pytest.raises(NotImplementedError) as caught:
            _run(function, *[None] * (len(required) - len(by_name)), **dict.fromkeys(by_name))
        assert str(caught.value) == task.label


def test_the_course_s_stubs_keep_the_signatures() -> None:
    for path, text in stubs_of_the_course().items():
        if path.endswith(".py"):
            stubbed, solved = signatures(text), signatures((SOLUTION / path).read_text(encoding="utf-8"))
            assert stubbed == {name: solved[name] for name in stubbed}, path
            gone = solved.keys() - stubbed.keys()
            assert all(any(part.startswith("_") for part in name.split(".")) for name in gone), path


def _run(function: Callable[..., Any], *arguments: object, **by_name: object) -> None:
    if inspect.iscoroutine(begun := function(*arguments, **by_name)):
        asyncio.run(begun)


def _functions(module: ModuleType, name: str) -> Iterator[Callable[..., object]]:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    functions = (found,) if inspect.isfunction(found) else filter(inspect.isfunction, vars(found).values())
    yield from (each for each in functions if each.__code__.co_filename == module.__file__)  # not a dataclass's own
