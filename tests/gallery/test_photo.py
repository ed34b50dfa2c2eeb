"""The example with a real photograph, run as its README says, against NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pywt.data
from PIL import Image

EXAMPLE = Path(__file__).parents[2] / "examples" / "photo" / "photo.py"


def filtered(image: Any, taps: Any) -> Any:
    """The correlation of an image with a square filter, the image mirrored at its edges."""
    reach = len(taps) // 2
    padded = np.pad(image.astype(np.float64), reach, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps.shape)
    return np.einsum("yxrs,rs->yx", windows, taps)


def difference(image: Any, expected: Any) -> int:
    return int(np.abs(image.astype(np.int64) - np.rint(expected).astype(np.int64)).max())


@pytest.mark.slow
def test_the_photograph_is_blurred_and_its_edges_are_found(tmp_path: Path) -> None:
    call = [sys.executable, str(EXAMPLE), "--device", "cpu", "--folder", str(tmp_path)]
    written = subprocess.run(call, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    assert [Path(line).name for line in written] == ["photo.png", "blurred.png", "edges.png"]
    photo, blurred, edges = (np.asarray(Image.open(line)) for line in written)
    assert np.array_equal(photo, pywt.data.camera())
    row = np.array([1, 6, 15, 20, 15, 6, 1]) / 64
    # Exact in float32 but for a tie, which either neighbour may win.
    assert difference(blurred, filtered(photo, np.outer(row, row))) <= 1
    across = np.outer([1, 2, 1], [-1, 0, 1])
    steepness = np.hypot(filtered(blurred, across), filtered(blurred, across.T))
    assert difference(edges, np.minimum(steepness, 255)) <= 1
    assert edges.max() == 255
