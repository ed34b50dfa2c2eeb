"""Drawn specs at real sizes: planned, analysed and compiled. `python -m tests.fuzz --seed S --count N` for more."""
