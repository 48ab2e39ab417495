"""Mixture of experts: many MLPs side by side, of which each token goes through a few."""
