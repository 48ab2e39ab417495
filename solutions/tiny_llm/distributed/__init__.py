"""Ranks: processes that run the same program on different parts of the data, and what they send each other."""
