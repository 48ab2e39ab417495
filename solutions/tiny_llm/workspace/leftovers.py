"""What a killed process leaves beside a file that it was replacing."""

import os
import re

from .root import Place

TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")  # the names that `Changes` gives to new files


def remove_leftovers(place: Place) -> None:
    """Delete the new files in a place's folder that were written, in whole or in part, and never renamed."""
    for name in os.listdir(place.folder):
        if TEMPORARY.fullmatch(name):
            os.unlink(name, dir_fd=place.folder)
