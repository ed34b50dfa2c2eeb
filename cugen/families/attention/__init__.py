"""Attention: two matrix multiplications with a softmax over rows between them, in one launch that stores no scores."""
