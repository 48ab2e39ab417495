"""Attention masks of every form, attention that takes them, and cross-attention."""
