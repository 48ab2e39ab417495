"""Measuring time and memory."""
