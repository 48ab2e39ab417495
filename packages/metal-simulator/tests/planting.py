"""A right kernel with a fault in it."""

from dataclasses import dataclass

from metal_simulator import Kind

from .case import Case


@dataclass(frozen=True)
class Planted:
    """A case whose source says `new` instead of `old`; the line named holds one of `lines`, none if there are none."""

    kind: Kind
    case: Case
    old: str
    new: str
    lines: tuple[str, ...]
    says: str = ""  # stands in the message

    @property
    def source(self) -> str:
        assert self.case.source.count(self.old) == 1, f"{self.old!r} stands in {self.case.name} not once"
        return self.case.source.replace(self.old, self.new)

    def __str__(self) -> str:
        return f"{self.kind}-{self.case.name}".replace(" ", "_")
