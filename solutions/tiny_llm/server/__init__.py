"""A server for the scheduler: callers that come and go, text while it is written, limits and figures."""
