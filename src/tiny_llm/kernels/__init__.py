"""Kernels in C++ for the CPU, as operations of MLX, and the engines that use them."""
