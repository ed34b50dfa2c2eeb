"""GEMMs, against cuBLAS."""
