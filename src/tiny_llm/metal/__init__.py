"""Kernels in Metal, which run on Apple's GPU, on NVIDIA's, and on a simulator."""
