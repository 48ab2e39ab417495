"""Qwen3 with 4-bit or 8-bit matrices, and what quantization costs in quality."""
