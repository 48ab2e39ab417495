"""Backward and AdamW."""
