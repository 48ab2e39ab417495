"""Optimizers: AdamW, gradient clipping and a learning-rate schedule."""
