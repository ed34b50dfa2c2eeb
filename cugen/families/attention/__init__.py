"""Attention: two matrix products with a softmax over rows between them, in one launch that stores no scores."""
