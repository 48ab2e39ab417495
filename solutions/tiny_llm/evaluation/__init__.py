"""Evaluation: score a model on a set of items, say how certain the result is, and whether the model has seen them."""
