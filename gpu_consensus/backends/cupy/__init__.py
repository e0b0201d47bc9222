"""The CUDA backend: our kernels, launched through CuPy."""
