"""Merging upstream's changes into a clone with learner code."""
