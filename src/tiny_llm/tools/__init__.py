"""Tool calls."""
