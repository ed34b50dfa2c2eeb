"""The picture of a report is what the page looks like now."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SMALL = (106, 80)  # fonts differ between machines, and no letter is seen at this size
MAX_DIFFERENCE = 12  # of 255, in the mean


@pytest.mark.slow
def test_the_picture_of_a_report_shows_the_page(tmp_path: Path) -> None:
    if not any(map(shutil.which, PROGRAMS)):
        pytest.skip("NO BROWSER, NOT TESTED: apt-get install chromium")
    import numpy as np
    from PIL import Image

    path = tmp_path / "report.png"
    subprocess.run([sys.executable, "docs/picture.py", str(path)], cwd=ROOT, check=True, timeout=120)
    now, shown = (Image.open(file).convert("RGB") for file in (path, ROOT / "docs" / "images" / "report.png"))
    assert now.size == shown.size
    a, b = (np.asarray(image.resize(SMALL)).astype(int) for image in (now, shown))
    assert np.abs(a - b).mean() < MAX_DIFFERENCE, "run `python docs/picture.py docs/images/report.png`"
