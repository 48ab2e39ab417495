"""The access log: a JSON object per request, on a line of its own. It has nothing of a prompt, an answer or a key."""

import datetime
import json
import sys
from pathlib import Path
from typing import Any


class AccessLog:
    """Append to a file, or to stderr for "-". If it cannot be written, say so once; requests are served as before."""

    def __init__(self, file: str) -> None:
        """Open the file; raise OSError if that fails."""
        self._to = sys.stderr
        if file != "-":
            self._to = Path(file).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 # until the server ends
        self._failed = False

    def write(self, **entry: Any) -> None:
        """Write one request."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        try:
            self._to.write(json.dumps({"time": now, **entry}) + "\n")
        except OSError as error:
            if not self._failed:
                print(f"The access log cannot be written: {error.strerror}.", file=sys.stderr)
            self._failed = True
