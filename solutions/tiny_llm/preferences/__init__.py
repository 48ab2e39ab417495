"""Preferences and rewards."""
