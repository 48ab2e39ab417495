"""Mixture of experts: each token is routed to a few of many MLPs."""
