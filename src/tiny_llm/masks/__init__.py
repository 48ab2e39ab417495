"""Who may look at whom: masks of every kind, attention that takes them, and attention from one text to another."""
