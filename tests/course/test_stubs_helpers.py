"""What leaves a module with the solved bodies: the private helpers that only they used."""

from textwrap import dedent

import pytest

from tiny_llm_course.course.entities import Target, Task
from tiny_llm_course.source.stubs.source import stub_source

TASK = Task("1.1.1", "Thing", Target("module", "name"), "tests", (), 10, 1, (), (), 1, 1)
RAISE = 'raise NotImplementedError("1.1.1 Thing")'


def check(source: str, wanted: str, *targets: str) -> None:
    stubbed = stub_source(dedent(source).lstrip("\n"), dict.fromkeys(targets, TASK))
    assert stubbed == dedent(wanted).lstrip("\n").replace("RAISE", RAISE)


def test_helpers_of_the_solution_go_and_others_stay() -> None:
    check(
        """
        '''Doc.'''

        # about the constant: goes
        _WIDTH = 3
        _DEPTH: int = 4
        _GIVEN = 5

        # a paragraph of its own, which stays


        # about the helper
        @decorated
        def _helper(x):
            return _deeper(x)


        def target(x, y=_GIVEN):
            return _helper(x) + _WIDTH + _DEPTH


        def _deeper(x):
            return _helper(x) or _Recursive() or _shared(x)


        class _Recursive:
            x: "_Recursive"


        def given(x: "_Quoted"):
            return _shared(x)


        def _shared(x):
            return _under_shared(x)


        def _under_shared(x):
            return x


        class _Quoted:
            pass


        def _wanted_by_nobody():
            pass


        def _exported():
            pass


        __all__ = ["_exported"]


        def _last():
            return _exported()


        def another():
            return _last()
        """,
        """
        '''Doc.'''

        _GIVEN = 5

        # a paragraph of its own, which stays


        def target(x, y=_GIVEN):
            RAISE


        def given(x: "_Quoted"):
            return _shared(x)


        def _shared(x):
            return _under_shared(x)


        def _under_shared(x):
            return x


        class _Quoted:
            pass


        def _wanted_by_nobody():
            pass


        def _exported():
            pass


        __all__ = ["_exported"]


        def another():
            RAISE
        """,
        "target",
        "another",
    )


def test_a_target_stays_though_it_is_private() -> None:
    check(
        "def f():\n    return _g()\n\n\ndef _g():\n    return 1\n",
        "def f():\n    RAISE\n\n\ndef _g():\n    RAISE\n",
        "f",
        "_g",
    )


def test_an_attribute_does_not_keep_a_helper_of_the_same_name() -> None:
    check(
        "def f():\n    return _g()\n\n\ndef _g(): ...\n\n\ndef given(x):\n    return x._g\n",
        "def f():\n    RAISE\n\n\ndef given(x):\n    return x._g\n",
        "f",
    )


def test_private_methods_go_with_what_they_call() -> None:
    check(
        """
        class Target:
            def _first(self):
                return 1

            def f(self):
                return self._first()

            def _recursive(self):
                return self._recursive() + _helper()


        def _helper(): ...


        class Given:
            def _first(self):
                return 1

            def f(self):
                return self._first()
        """,
        """
        class Target:
            def f(self):
                RAISE


        class Given:
            def _first(self):
                return 1

            def f(self):
                return self._first()
        """,
        "Target",
    )


def test_a_private_method_that_a_given_part_calls_stays() -> None:
    check(
        """
        class Target:
            def f(self):
                # --- your code
                x = self._solved()
                # --- end
                return self._given(x)

            def _solved(self):
                return 1

            def _given(self, x):
                return self._below(x)

            def _below(self, x):
                return x
        """,
        """
        class Target:
            def f(self):
                # --- your code
                RAISE
                # --- end
                return self._given(x)

            def _given(self, x):
                return self._below(x)

            def _below(self, x):
                return x
        """,
        "Target",
    )


def test_where_only_a_method_is_written_its_own_helpers_go() -> None:
    check(
        """
        class C:
            def f(self):
                return self._of_f() + self._of_both()

            def g(self):
                return self._of_both()

            def _of_f(self): ...

            def _of_both(self): ...

            def _of_a_friend(self): ...


        def friend(c):
            return c._of_a_friend()
        """,
        """
        class C:
            def f(self):
                RAISE

            def g(self):
                return self._of_both()

            def _of_both(self): ...

            def _of_a_friend(self): ...


        def friend(c):
            return c._of_a_friend()
        """,
        "C.f",
    )


CLASS = "class C:\n    def g(self):\n        return _f\n"


@pytest.mark.parametrize(
    ("above", "dropped", "below", "joined"),
    [
        ("", "_f = 1\n\n\n", CLASS, CLASS),
        ("import a\n", "\n\ndef _f(): ...\n", "\n\nx = a\n\n\n" + CLASS, "import a\n\nx = a\n\n\n" + CLASS),
        ('"""D."""\n', "\n\ndef _f(): ...\n", "\n\n# c\n\n\n" + CLASS, '"""D."""\n\n# c\n\n\n' + CLASS),
        ("import a\n", "\n\ndef _f(): ...\n", "\n\na.b()\n\n\n" + CLASS, "import a\n\na.b()\n\n\n" + CLASS),
        ("x = 1\n", "_f = 2\n\n\n", CLASS, "x = 1\n\n\n" + CLASS),
        (CLASS, "\n\n_f = 2\n", "", CLASS),
        (CLASS, "\n\n_f = 2\n", "\ny = 1\n", CLASS + "\n\ny = 1\n"),
        (CLASS, "\n    def _f(self): ...\n", "", CLASS),
        (CLASS, "\n    def _f(self): ...\n", "\n\ny = 1\n", CLASS + "\n\ny = 1\n"),
        ("class C:\n", "    def _f(self): ...\n\n", CLASS[9:], CLASS),
        ("class C:\n    x = 1\n", "\n    def _f(self): ...\n", "\n" + CLASS[9:], "class C:\n    x = 1\n\n" + CLASS[9:]),
    ],
)
def test_the_blank_lines_around_what_goes_are_the_formatter_s(
    above: str, dropped: str, below: str, joined: str
) -> None:
    check(above + dropped + below, joined.replace("return _f", "RAISE"), "C")
