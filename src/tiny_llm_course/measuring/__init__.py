"""Time and memory, measured honestly."""
