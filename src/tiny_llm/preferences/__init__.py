"""Preferences and rewards: log-probabilities, DPO, GRPO, and samples from the serving engine."""
