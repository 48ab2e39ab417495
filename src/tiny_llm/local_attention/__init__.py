"""Sliding-window attention with attention sinks."""
