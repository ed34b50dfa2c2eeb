"""Searches and builds on a cluster."""
