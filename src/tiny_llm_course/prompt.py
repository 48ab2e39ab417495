"""What `pdm run python` runs before its first prompt: what is borrowed is borrowed there too.

Python runs it because pyproject.toml names it as PYTHONSTARTUP, and only where somebody types. A file of that kind
which the user has anyhow is run after it; pyproject.toml hands it on as TINY_LLM_THEIR_STARTUP.
"""


def _borrow() -> None:
    from contextlib import suppress

    with suppress(ImportError):  # the packages are not installed yet
        from tiny_llm_course.learner import progress
        from tiny_llm_course.programs import borrowing
        from tiny_llm_course.terminal.screen import say

        lent = progress.borrowed_tasks()
        borrowing.install(lent)
        if lent:
            say(f"Borrowed here as well: {', '.join(task.id for task in lent)}")


def _run_theirs() -> None:
    from os import environ, path

    file = environ.get("TINY_LLM_THEIR_STARTUP", "")
    if path.isfile(file) and not path.samefile(file, __file__):
        with open(file, encoding="utf-8") as source:
            exec(compile(source.read(), file, "exec"), globals())


# Nothing of this file stays behind among the user's names, save what their own file puts there.
_borrow()
_run_theirs()
del _borrow, _run_theirs
