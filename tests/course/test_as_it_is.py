"""A learner's file counts as it is now, also within the second in which it was written before."""

import os

from tests.course.checkouts import fixture, replace

from tiny_llm_course.dev.transcripts import run


def test_a_file_that_is_written_twice_in_a_second_is_graded_as_it_is(monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    with fixture("1.1.1", "1.1.2") as checkout:
        file = checkout / "src" / "tiny_llm" / "spread.py"
        written = file.stat()
        assert run("test 1.1.2", checkout).returncode == 0
        replace(file, "centered * centered", "centered + centered")  # of the same length
        os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns))
        done = run("test 1.1.2", checkout)
        assert done.returncode == 1, done.stdout
