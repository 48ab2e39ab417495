"""Upstream's changes, brought into a clone in which a learner has written code."""
