"""The generator, one module at a time: which lines a stub replaces, and that it leaves all others to the letter."""

import re
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiny_llm_course.course.entities import Target, Task
from tiny_llm_course.source.stubs.source import stub_source

pytestmark = pytest.mark.maintainers
TASK = Task("1.1.1", "Thing", Target("module", "name"), "tests", (), 10, 1, (), (), 1, 1)


def stub(source: str, *targets: str) -> str:
    return stub_source(dedent(source).lstrip("\n"), dict.fromkeys(targets, TASK))


def check(source: str, wanted: str, *targets: str) -> None:
    assert stub(source, *targets) == dedent(wanted).lstrip("\n")


# A module's pieces and what becomes of them, when `target` and `Target` are what the learner writes.
PIECES = {
    "docstring and comments in the body": (
        '''
        # about the target, which stays
        def target(x: int = 1, *args: int, key: str = "a") -> int:  # on the head
            """What it does.

            Above: a blank line. Indented:
                more
            """
            # says how: goes
            y = x + 1  # goes

            return y
            # after the last statement: goes

            # and this, too
        # about what follows, which stays
        ''',
        '''
        # about the target, which stays
        def target(x: int = 1, *args: int, key: str = "a") -> int:  # on the head
            """What it does.

            Above: a blank line. Indented:
                more
            """
            raise NotImplementedError("1.1.1 Thing")
        # about what follows, which stays
        ''',
    ),
    "no docstring": (
        """
        def target(x):  # on the head
            # goes

            # goes, too
            return x
        """,
        """
        def target(x):  # on the head
            raise NotImplementedError("1.1.1 Thing")
        """,
    ),
    "a docstring and nothing else": (
        '''
        def target(x):
            """Does nothing."""  # after it
        ''',
        '''
        def target(x):
            """Does nothing."""  # after it
            raise NotImplementedError("1.1.1 Thing")
        ''',
    ),
    "a head over many lines": (
        '''
        @decorated(
            by="what"  # and why
        )
        @twice
        async def target(
            x: dict[str, int],  # one
            default=lambda: 1,

            *,
            y: "list[int]" = [  # two
                1,
            ],
        ) -> tuple[
            int, int
        ]:  # on the head
            """Doc."""

            def inner():
                """Not this docstring."""
                return 1

            async with y:
                return inner(), await x
        ''',
        '''
        @decorated(
            by="what"  # and why
        )
        @twice
        async def target(
            x: dict[str, int],  # one
            default=lambda: 1,

            *,
            y: "list[int]" = [  # two
                1,
            ],
        ) -> tuple[
            int, int
        ]:  # on the head
            """Doc."""
            raise NotImplementedError("1.1.1 Thing")
        ''',
    ),
    "on one line": (
        "\ndef target(ä='é', b={1: 2}): return ä  # goes\n",
        "\ndef target(ä='é', b={1: 2}):\n    raise NotImplementedError(\"1.1.1 Thing\")\n",
    ),
    "on one line, with a docstring": (
        '\ndef target(): "Doc."; return 1\n',
        '\ndef target():\n    "Doc."\n    raise NotImplementedError("1.1.1 Thing")\n',
    ),
    "the first statement is decorated": (
        """
        def target():
            @cache
            def inner(): ...
            return inner
        """,
        """
        def target():
            raise NotImplementedError("1.1.1 Thing")
        """,
    ),
    "signatures for type checkers": (
        """
        @typing.overload
        def target(x: int) -> int: ...
        @overload
        def target(x: str) -> str: ...
        def target(x):
            return x
        """,
        """
        @typing.overload
        def target(x: int) -> int: ...
        @overload
        def target(x: str) -> str: ...
        def target(x):
            raise NotImplementedError("1.1.1 Thing")
        """,
    ),
    "a class": (
        '''
        @final
        class Target(Base):  # on the head
            """The class's docstring."""

            size: int = 3  # an attribute

            # about the first method
            def __init__(self) -> None:
                """Doc."""
                self.x = 1

            # about the helper: goes with it
            # this, too
            @staticmethod
            def _helper(x):
                return x
                # goes

            @property
            def width(self) -> int:
                return self._helper(self.x)

            @width.setter
            def width(self, x: int) -> None:
                self.x = x

            def __mangled(self): return 1

            class Inner:
                def method(self):
                    return self._also()

                def _also(self):
                    return 2

            async def last(self): return 1
            # the class's last line
        ''',
        '''
        @final
        class Target(Base):  # on the head
            """The class's docstring."""

            size: int = 3  # an attribute

            # about the first method
            def __init__(self) -> None:
                """Doc."""
                raise NotImplementedError("1.1.1 Thing")

            @property
            def width(self) -> int:
                raise NotImplementedError("1.1.1 Thing")

            @width.setter
            def width(self, x: int) -> None:
                raise NotImplementedError("1.1.1 Thing")

            class Inner:
                def method(self):
                    raise NotImplementedError("1.1.1 Thing")

            async def last(self):
                raise NotImplementedError("1.1.1 Thing")
            # the class's last line
        ''',
    ),
    "parts of a body are given": (
        '''
        def target(xs):
            """Doc with "# --- your code" in it.

            # --- your code
            """
            total = 0  # given
            for x in xs:
                # --- your code
                # add it

                total += x
                # --- end
            # --- your code
            total /= 2
            # --- end
            return total  # given
            # given as well
        ''',
        '''
        def target(xs):
            """Doc with "# --- your code" in it.

            # --- your code
            """
            total = 0  # given
            for x in xs:
                # --- your code
                raise NotImplementedError("1.1.1 Thing")
                # --- end
            # --- your code
            raise NotImplementedError("1.1.1 Thing")
            # --- end
            return total  # given
            # given as well
        ''',
    ),
    "not a target": (
        '''
        # about it
        class Given:
            """Doc."""

            def _private(self): return 1  # ruff would not have it so


            def method(self):
                # a comment, and a string that looks like a definition
                return """
        def target():
            return 1
        # not a comment
        """
        ''',
    )
    * 2,
    "statements": (
        """
        x = [1,
          2]  # stays
        if x:
            y = 1 ; z = "\x0c\u2028"
        """,
    )
    * 2,
}


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_becomes_its_stub(name: str) -> None:
    source, wanted = PIECES[name]
    targets = [name for name in ("target", "Target") if re.search(rf"^\s*(async )?(def|class) {name}\b", source, re.M)]
    check(source, wanted, *(targets if source != wanted else []))


@given(st.lists(st.tuples(st.sampled_from(sorted(PIECES)), st.integers(0, 2))))
def test_pieces_do_not_touch_each_other(choice: list[tuple[str, int]]) -> None:
    source, wanted, targets = "", "", []
    for number, (name, blank_lines) in enumerate(choice):
        # Each piece with names of its own, since a target is found by its name.
        solved, stubbed = (
            re.sub(r"\b(def|class) (target|Target)\b", rf"\1 \g<2>{number}", dedent(piece).lstrip("\n"))
            for piece in PIECES[name]
        )
        if solved != stubbed:
            targets.append(f"Target{number}" if f"Target{number}" in solved else f"target{number}")
        source += solved + "\n" * blank_lines
        wanted += stubbed + "\n" * blank_lines
    assert stub(source, *targets) == wanted
    assert stub(source, *targets) == stub(source, *reversed(targets))


def test_nothing_to_write_changes_nothing() -> None:
    source = (
        "import os\n\n\nos.x()\n\n\ndef f():\n    return _g()\n\n\ndef _g(): return 1\n\n\ndef _unused(): ...\n\n\n\n#"
    )
    assert stub_source(source, {}) == source


def test_a_method_alone() -> None:
    check(
        """
        class C:
            def __init__(self):
                self.x = 1

            def __call__(self):
                return self.x
        """,
        """
        class C:
            def __init__(self):
                self.x = 1

            def __call__(self):
                raise NotImplementedError("1.1.1 Thing")
        """,
        "C.__call__",
    )
