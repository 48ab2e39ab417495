"""The learner's state in this checkout, and changes to the learner's files."""
