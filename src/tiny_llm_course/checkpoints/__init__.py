"""Trained models in files: weights, config, chat template."""
