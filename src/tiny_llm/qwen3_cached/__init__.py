"""Qwen3 with a KV cache: each token is computed once."""
