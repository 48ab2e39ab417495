"""Run a learner's code against the tests, within limits, and report the result."""
