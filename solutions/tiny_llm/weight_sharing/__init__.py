"""Weights that are used more than once: a table at both ends of a model, a layer's matrices in several layers."""
