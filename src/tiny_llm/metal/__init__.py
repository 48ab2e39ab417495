"""Metal kernels, which run on Apple GPUs, on NVIDIA GPUs and on a simulator."""
