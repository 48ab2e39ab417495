"""Evaluation by outcomes: what an agent has achieved, at which cost, and why it failed."""
