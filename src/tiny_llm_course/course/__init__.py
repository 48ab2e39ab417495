"""The nouns of the course: weeks, days and tasks, where their files are, what can be found about them."""
