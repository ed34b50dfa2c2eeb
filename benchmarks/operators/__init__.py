"""Operators and convolutions, against PyTorch and cuDNN."""
