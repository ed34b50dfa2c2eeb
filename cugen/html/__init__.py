"""HTML of kernels and reports: what pages and notebooks share, and what a notebook shows."""
