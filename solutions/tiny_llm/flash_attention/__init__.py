"""Attention block by block, which never holds all scores."""
