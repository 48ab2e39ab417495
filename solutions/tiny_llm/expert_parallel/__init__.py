"""Mixture of experts over ranks: each holds some of the experts."""
