"""cugen as a step of other projects' builds: setuptools, hatch, pre-commit."""
