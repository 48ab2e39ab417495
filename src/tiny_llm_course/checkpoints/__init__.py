"""Trained models in files: their weights, their settings, their chat templates."""
