"""Attention that looks no further back than a window, and at the first tokens."""
