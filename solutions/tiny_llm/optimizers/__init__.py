"""Optimizers: AdamW, clipping, and the learning-rate schedule."""
