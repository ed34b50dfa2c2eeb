"""The example with a sensor's mosaic: its page's commands make the pictures that it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cugen.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "camera"
PAGE = (EXAMPLE / "README.md").read_text()
COMMANDS = re.findall(r"^cugen (run .*)$", PAGE, re.MULTILINE)
MAX_BYTES = 100_000  # of all pictures


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image).astype(int)


def test_the_page_shows_each_picture_and_they_are_small() -> None:
    pictures = {path.name for path in EXAMPLE.glob("*.png")}
    assert pictures == set(re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE))
    assert sum((EXAMPLE / name).stat().st_size for name in pictures) < MAX_BYTES


def test_each_pixel_of_the_sensor_is_in_the_picture() -> None:
    mosaic, picture = pixels(EXAMPLE / "mosaic.png"), pixels(EXAMPLE / "picture.png")
    for row, column, channel in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
        assert np.array_equal(picture[row::2, column::2, channel], mosaic[row::2, column::2])


def test_the_sharpened_picture_has_steeper_edges_and_the_small_one_is_its_mean() -> None:
    picture, sharp, small = (pixels(EXAMPLE / f"{name}.png") for name in ("picture", "sharp", "small"))
    assert np.abs(np.diff(sharp, axis=1)).mean() > 1.2 * np.abs(np.diff(picture, axis=1)).mean()
    height, width, _ = small.shape
    means = sharp.reshape(height, 2, width, 2, 3).mean((1, 3))
    assert np.abs(small - means).max() <= 0.5


@pytest.mark.slow
def test_the_commands_of_the_page_make_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("camera.yaml", "mosaic.png"):
        shutil.copy(EXAMPLE / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 3
    for command in COMMANDS:
        assert main(shlex.split(command)) == 0
    for name in ("picture.png", "sharp.png", "small.png"):
        assert np.abs(pixels(tmp_path / name) - pixels(EXAMPLE / name)).max() <= 1, name
