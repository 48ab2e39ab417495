"""Questions to git, where there may be none. It stands on the standard library, for `doctor`."""

import subprocess

from ..paths import ROOT


def ask_git(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run git in the checkout, to be told something; where there is no git, it fails."""
    command = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return subprocess.CompletedProcess([], 1, "", "")
