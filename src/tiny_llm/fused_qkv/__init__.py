"""One projection for queries, keys and values; dropout; attention that gives its weights."""
