"""The CUDA driver, through PyCUDA or through libcuda alone (ctypes)."""
