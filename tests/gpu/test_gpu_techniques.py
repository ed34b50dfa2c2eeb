"""The commands of docs/techniques.md that need a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.runtime.gpu import GpuDevice
from tests.docs.techniques import Technique, execute, techniques

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("line", [line for line in techniques() if line.needs_gpu], ids=str)
def test_a_command_shows_what_is_taught(
    line: Technique, device: GpuDevice, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = execute(line, tmp_path)
    out, err = capfd.readouterr()
    assert status == line.status, err
    assert line.missing(out) == [], out
