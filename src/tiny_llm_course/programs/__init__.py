"""Importing the learner's package and the solution, and replacing parts of one by the other's."""
