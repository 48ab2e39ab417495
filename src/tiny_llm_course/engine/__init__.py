"""The engine that the learner has built, run on a model."""
