"""One projection for queries, keys and values; dropout; attention that also returns its weights."""
