"""The error of a run that cannot go on."""


class Diverged(RuntimeError):
    """Too many steps in a row were skipped. Given."""
