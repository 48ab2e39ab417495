"""Timing a step of a model, counting its bytes and FLOPs, and comparing both on a roofline."""
