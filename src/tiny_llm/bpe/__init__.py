"""Training a tokenizer: byte-pair encoding learns its merges from a text."""
