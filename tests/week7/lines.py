"""Compare logs of runs line by line."""

from tiny_llm_course.testkit.errors import Kind, fail

CUT = 88


def same_lines(actual: list[str], expected: list[str], case: str, what: str) -> None:
    """Check that two lists of lines are equal, or show the first line that differs."""
    for number in range(max(len(actual), len(expected))):
        mine = actual[number] if number < len(actual) else "(nothing more)"
        wanted = expected[number] if number < len(expected) else "(nothing more)"
        if mine != wanted:
            lines = [
                f"{name}{ascii(line)[1:-1][:CUT]}" for name, line in (("expected  ", wanted), ("got       ", mine))
            ]
            before = [f"after     {ascii(expected[number - 1])[1:-1][:CUT]}"] if number else []
            fail(Kind.VALUES, f"{what} {number + 1} is wrong", case, *before, *lines, size=len(expected))
