"""A paged KV cache: pages of equal size, so that any free page fits any request."""
