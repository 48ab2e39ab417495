"""`sync` over random edits, of one file's text and of whole repositories: nothing that the learner wrote is lost."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.course.course_and_clone import commit, everything, make_clone, make_course, without_settings
from tests.course.random_edits import text
from tests.course.random_files import Checkouts, Writer

from tiny_llm_course.commands.sync import bring_in
from tiny_llm_course.course.registry import UsageError

pytestmark = pytest.mark.maintainers
SEEDS = st.integers(0, 2**32)


@settings(max_examples=80, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=SEEDS, rounds=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=1, max_size=4))
def test_no_line_is_lost_whatever_its_form(seed, rounds):
    writer = Writer(seed)
    for learner_edits, upstream_edits in rounds:
        for _ in range(learner_edits):
            writer.learner()
        for _ in range(upstream_edits):
            writer.upstream()
        writer.sync()


@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=SEEDS, rounds=st.integers(1, 3))
def test_no_line_is_lost_between_repositories(tmp_path_factory, seed, rounds):
    """Files are renamed, deleted, damaged, committed, staged, saved with Windows line ends; what is refused stays."""
    folder = tmp_path_factory.mktemp("sync")
    with pytest.MonkeyPatch.context() as monkeypatch:
        without_settings(folder, monkeypatch)
        course = make_course(folder / "course")
        names = ("one", "two")
        commit(course, **dict.fromkeys(names, text()))
        clone = make_clone(course)
        play = Checkouts(seed, course, clone, names)
        for _ in range(rounds):
            play.edit()
            before, state = play.marks(), everything(clone)
            try:
                bring_in(clone)
            except UsageError:
                assert everything(clone) == state
                return
            assert before <= play.marks()
