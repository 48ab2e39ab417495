"""Train a tokenizer."""
