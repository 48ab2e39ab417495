"""C++ kernels for the CPU, wrapped as MLX operations, and the engines that use them."""
