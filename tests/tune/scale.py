"""A spec with few candidates, and the program that makes up their times."""

from __future__ import annotations

from pathlib import Path

FAKE = Path(__file__).parent / "fake_worker.py"
# Candidates: vectors of 4 (the generator's own choice), 2 and 1 elements.
SCALE = """\
cugen: 1
kernel: scale
target: sm_90
params: {N: 4096}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i]
schedule: {family: map, vectors: 1}
"""
FOUR, TWO, SCALAR = "Vector<float, 4>", "Vector<float, 2>", "float x_i"
