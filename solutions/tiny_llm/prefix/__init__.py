"""The prefix cache: pages of earlier requests, reused by requests that begin with the same tokens."""
