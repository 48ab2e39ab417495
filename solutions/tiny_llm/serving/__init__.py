"""Serve many requests at once: scheduling, a ragged batch per step, sampling and stop strings."""
