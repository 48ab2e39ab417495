"""The learner's package and the solution, imported; one put in the other's place."""
