"""Integrations with build systems: setuptools, hatch, pre-commit."""
