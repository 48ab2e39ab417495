"""The Qwen3 model with matrices of 4 or 8 bits a weight, and what that costs in quality."""
