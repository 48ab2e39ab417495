"""Weeks, days and tasks: the registry, their files, and what is found out about them."""
