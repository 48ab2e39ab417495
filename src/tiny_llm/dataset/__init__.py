"""Data and loss."""
