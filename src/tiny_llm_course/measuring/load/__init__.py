"""Load tests: synthetic requests, sent to a scheduler or a URL, and their statistics."""
