"""Running a learner's code against the tests, within limits, and what is said about it."""
