"""The agent: a model that works with tools in a loop."""
