"""A server around the scheduler: clients, streamed text, admission control and metrics."""
