"""Ask before an agent changes something, and show exactly what."""

import sys

from ..terminal.screen import DIFFERENCE, say

QUESTION = "Allow this? [y]es, [n]o, [a]ll of this run: "


class Approval:
    """Show the user each change or command and ask for approval."""

    def __init__(self, everything: bool = False) -> None:
        self.everything = everything
        self.shown = ""  # the details of the last one

    def __call__(self, action: str, details: str) -> bool:
        """Show an action and its details, and return whether the user approves it or has approved the whole run.

        Without a terminal to ask on, the answer is no.
        """
        self.shown = details
        say(action, bold=True)
        show_details(details)
        if self.everything:
            return True
        if not sys.stdin.isatty():
            say("There is no terminal to ask on, so the answer is no (--yes allows everything).", err=True)
            return False
        while True:
            try:
                answer = input(QUESTION).strip().lower()
            except (EOFError, KeyboardInterrupt) as end:
                say()  # ends the line of the question
                if isinstance(end, KeyboardInterrupt):
                    raise
                return False
            if answer in ("a", "all"):
                self.everything = True
            if answer in ("y", "yes", "a", "all"):
                return True
            if answer in ("n", "no"):
                return False


def show_details(text: str) -> None:
    """Print a diff or a command, indented but never cut, so that nothing in it is hidden."""
    difference = text.startswith("--- ")
    for line in text.split("\n"):
        say(f"  {line}", color=DIFFERENCE.get(line[:1]) if difference else None, as_is=True)
