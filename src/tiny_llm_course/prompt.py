"""The PYTHONSTARTUP of interactive `pdm run python`: borrow, then run the user's own (TINY_LLM_THEIR_STARTUP)."""


def _borrow() -> None:
    from contextlib import suppress

    with suppress(ImportError):  # the packages are not installed yet
        from tiny_llm_course.learner import progress
        from tiny_llm_course.programs import borrowing
        from tiny_llm_course.terminal.screen import say

        borrowed = progress.borrowed_tasks()
        borrowing.install(borrowed)
        if borrowed:
            say(f"Borrowed here as well: {', '.join(task.id for task in borrowed)}")


def _run_theirs() -> None:
    from os import environ, path

    file = environ.get("TINY_LLM_THEIR_STARTUP", "")
    if path.isfile(file) and not path.samefile(file, __file__):
        with open(file, encoding="utf-8") as source:
            exec(compile(source.read(), file, "exec"), globals())


# Leave no names of this file in the user's namespace.
_borrow()
_run_theirs()
del _borrow, _run_theirs
