"""`pdm run compare`: the learner's code beside ours."""
