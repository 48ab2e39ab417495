"""The error of the workspace tools."""


class WorkspaceError(ValueError):
    """A refusal, in one line that a model or a user can act on."""
