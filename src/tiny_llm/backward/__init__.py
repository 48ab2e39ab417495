"""Backward: the vector-Jacobian products of a transformer's layers, by hand."""
