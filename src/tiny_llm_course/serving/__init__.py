"""Serve the learner's scheduler over HTTP with OpenAI's API: routes and validation."""
