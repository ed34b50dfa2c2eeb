"""Rewrites of sums of products by the distributive law."""
