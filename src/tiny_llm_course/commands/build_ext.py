"""`pdm run build-ext`: build what of the package is in C++."""

import click

from ..course.registry import UsageError, load_course
from ..course.requirements import GETTING_A_COMPILER, is_here
from ..grading.build import build
from ..paths import LEARNER, ROOT, SOLUTION
from ..programs.packages import LearnerError
from ..terminal.screen import say


@click.command("build-ext", short_help="Build the C++ of your package, or of ours.")
@click.option("--solution", is_flag=True, help="Build that of solutions/tiny_llm.")
def build_ext(solution: bool) -> int:
    """Build the C++ of your package, if it has changed. Commands that need it do so by themselves."""
    package = SOLUTION if solution else LEARNER
    recipes = list(dict.fromkeys(week.build for week in load_course().weeks if week.build))
    if not is_here("compiler"):
        fix = [GETTING_A_COMPILER] if GETTING_A_COMPILER else []
        raise UsageError("There is no C++ compiler, which this needs." + " To get one:" * bool(fix), *fix)
    for recipe in recipes:
        folder = (package / recipe).parent.relative_to(ROOT).as_posix()
        if finding := build(package, recipe):
            raise LearnerError("\n  ".join([finding.headline, *finding.lines]))
        say(f"{folder} is built.", colour="green")
    if not recipes:
        say("There is nothing to build yet.")
    return 0
