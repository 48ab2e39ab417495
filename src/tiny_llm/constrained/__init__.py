"""Constrained decoding: from a JSON schema to the tokens that may come next."""
