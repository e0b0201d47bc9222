"""The CPU backend in C: small kernels, loaded with ctypes, threads of our own."""
