"""Complete engines: a model, a KV cache and a scheduler over both. This package imports all others."""
