"""Building blocks of graded tests: the only part of the harness that they may import."""
