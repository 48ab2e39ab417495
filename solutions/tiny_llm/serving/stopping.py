"""Stop strings: a text ends before the first of them, and nothing of one is ever shown."""
