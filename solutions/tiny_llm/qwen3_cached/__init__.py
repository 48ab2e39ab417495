"""The Qwen3 model that keeps the keys and values of what it has read, so that it reads every token once."""
