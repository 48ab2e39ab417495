"""What is told of the mistakes in a learner's program, in words that are true of what has been seen."""

import dataclasses

from .findings import Kind

# What has been seen, by the kind of failure that it is told under.
SEEN = {
    Kind.MEMORY: "your kernel does what one does in which",
    Kind.RAISED: "your program stops as one does in which",
    Kind.COSTS: "your kernel does what one does in which",
    Kind.NO_ERROR: "your program does what one does in which",
    Kind.MISJUDGED: "your check lets through just what one does that",
}
OUTPUT = "your output equals what you get when"


@dataclasses.dataclass(frozen=True)
class Claim:
    """That a program is as wrong as a known one, which has one mistake, or two at once.

    Each mistake has a fact, a question and a name. `here` says that no more than this case is known to be alike.
    """

    facts: list[str]
    questions: list[str]
    here: bool = False
    names: list[str] = dataclasses.field(default_factory=list)

    def said(self, kind: Kind) -> str:
        """The facts, under a failure of a kind."""
        seen = SEEN.get(kind, OUTPUT)
        said = f"{seen} {', and '.join(self.facts)}."
        if self.here:
            return f"In this case, {said} In others there is something else."
        return f"Two mistakes at once: {said}" if len(self.facts) > 1 else f"{said[0].upper()}{said[1:]}"
