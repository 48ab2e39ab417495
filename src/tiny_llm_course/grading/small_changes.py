"""Programs with one small change, run by a task's checks: slips of the solution, repairs of the learner's program.

A slip is named if it alone has the learner's result in every check. A repair that makes all checks pass says the line.
If all checks pass with one method of the solution in place of the learner's, only that method is searched for a repair;
without one, the claim is the method's name.
"""

import contextlib
import re
import time
from collections.abc import Callable, Sequence

import pytest

from ..course.entities import Task
from ..course.findings import Claim, Kind
from ..programs.packages import Program
from ..source.repairs import Repair, said
from ..source.slips import QUESTIONS
from ..testkit.changed_programs import (
    Overtime,
    folder_apart,
    installed_for,
    repairs_of,
    slips_of,
    with_our_methods_of,
)
from .failures import Failure, Failures

ENOUGH = 2  # failing checks that words without code must explain: they fit many programs
SECONDS = {"slips": 4.0, "repairs": 8.0}  # of the processor, for all of a task
WAIT = 3  # times as long on the clock, for checks that sleep and for busy machines
OTHER_ERROR = re.compile(r"raised \w+, expected an? ")
LEAST_SECONDS = 0.1  # for a check of one of them, which may never end
MOST_LINES = 2  # in which a repair makes all checks pass: more say nothing
OF_VALUES = {  # which prove nothing where only an error is missing: what a value is passed to may raise by chance
    "off by one",
    "a different operator",
    "an operator removed",
    "an operator added",
    "swapped operands",
    "a different expression",
    "a factor added",
    "a term added",
    "a different axis",
    "a different slice",
    "an index removed",
    "a different dtype",
    "different arguments",
    "swapped arguments",
    "an argument removed",
    "a call added",
    "a call removed",
}
# Those which may leave a caller's object as it was.
OF_OBJECTS = {"a copy", "an update in place", "a different function", "a call removed", "a statement removed"}
WHERE = "What does it do in the case shown, step by step?"


class SmallChanges:
    """What a task's checks, in the order of `items`, say of programs with one small change."""

    def __init__(
        self, task: Task, items: Sequence[pytest.Item], failures: Failures, run: Callable[[pytest.Item], Failure | None]
    ) -> None:
        self.task, self.failures, self.run = task, failures, run
        self.failing = [item for item in items if failures[item.name]]
        self.order = [*self.failing, *(item for item in items if not failures[item.name])]
        self.within: range | None = None  # the lines of the method that must be changed
        self._begin()
        run(self.order[0])
        self.most = max(LEAST_SECONDS, 3 * (time.monotonic() - self.started))

    def slip(self) -> Claim | None:
        """Claim the one slip of the solution that has the learner's result in every check; None if there are two.

        Exceptions alone are no evidence: many programs raise the same ones.
        """
        failures = [failure for failure in self.failures.values() if failure and not failure.stops]
        if not failures:
            return None
        alike = []
        self._begin()
        with folder_apart():
            for slip, program in slips_of(self.task):
                if self._is_late("slips"):  # another one may be alike
                    return None
                alike += [slip] * self._holds(program, self._equals)
        fact, *others = {slip.fact for slip in alike} or [""]
        enough = len(self.failing) >= ENOUGH or "`" in fact
        # Another place may raise the same error, with a message that lacks something.
        raised = alike and alike[0].kind == "not-refused" and all(each.lacks_words for each in failures)
        if not fact or others or not enough or raised:
            return None
        return Claim([fact], [QUESTIONS[alike[0].kind]], names=[alike[0].kind])

    def method(self) -> Claim | None:
        """Claim the only method with which all checks pass if it is the solution's."""
        with folder_apart():
            found = [method for method, program in with_our_methods_of(self.task) if self._passes(program)]
        if len(found) != 1:
            return None
        self.within = found[0].lines
        return Claim([], [WHERE], place=f"All checks pass with our `{found[0].name}` in place of yours.")

    def line(self) -> Claim | None:
        """Claim the line, of that method if one was found, in which a small change makes all checks pass.

        Only the first kind that has such a change counts, and only in two lines at most.
        """
        found: list[Repair] = []
        self._begin()
        failures = [each for each in self.failures.values() if each]
        kinds = {each.finding.kind for each in failures}
        # If another exception than the promised one is raised, or its message lacks something, that says it all.
        if all(OTHER_ERROR.match(each.finding.headline) or each.lacks_words for each in failures):
            return None
        with folder_apart():
            for repair, program in repairs_of(self.task, self.within):
                if kinds == {Kind.NO_ERROR} and repair.kind in OF_VALUES:
                    continue
                if Kind.INPUT_CHANGED in kinds and repair.kind not in OF_OBJECTS:
                    continue
                if self._is_late("repairs") or (found and found[0].kind != repair.kind):
                    break
                if self._passes(program):
                    found.append(repair)
        return Claim([], [WHERE], place=said(found)) if 0 < len({each.line for each in found}) <= MOST_LINES else None

    def _passes(self, program: Program) -> bool:
        return self._may_pass(program) and self._holds(program, lambda item, failure: failure is None)

    def _begin(self) -> None:
        self.started, self.worked = time.monotonic(), time.process_time()

    def _is_late(self, kind: str) -> bool:
        worked, waited = time.process_time() - self.worked, time.monotonic() - self.started
        return max(worked, waited / WAIT) > SECONDS[kind]

    def _equals(self, item: pytest.Item, theirs: Failure | None) -> bool:
        mine = self.failures[item.name]
        return mine.equals(theirs) if mine else theirs is None

    def _holds(self, program: Program, test: Callable[[pytest.Item, Failure | None], bool]) -> bool:
        """Return whether the checks of a program, failing ones first, come out as `test` demands."""

        def check(item: pytest.Item) -> bool:
            most = self.most if item is self.order[0] else SECONDS["slips"]
            with installed_for(most, self.task, program):
                return test(item, self.run(item))

        with contextlib.suppress(Overtime):
            return all(map(check, self.order))
        return False

    def _may_pass(self, program: Program) -> bool:
        """Return False if a program fails the first check. Without pytest around it, that takes a tenth of the time."""
        item = self.order[0]
        assert isinstance(item, pytest.Function)
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if {*item.fixturenames} - {*parameters, "request"}:
            return True
        with contextlib.suppress(Overtime), installed_for(self.most, self.task, program):
            try:
                item.obj(**parameters)
            except KeyboardInterrupt:
                raise
            except BaseException:  # a changed program may exit, too
                return False
            return True
        return False
