"""Windows and sinks for the tests of day 3."""

import pytest

# a window and its sinks: none, one, more of them than the window has, and no window at all
WINDOWS = [(3, 0), (3, 1), (2, 4), (1, 0), (1, 2), (None, 0), (None, 2)]
by_window = pytest.mark.parametrize(("window", "sinks"), WINDOWS)
