"""Tensor parallelism: every rank has a part of each matrix, and two all-reduces a layer add the parts up."""
