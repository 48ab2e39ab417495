"""Stubs of files in Python: a module of the solution with the learner's work taken out."""
