"""A warning where a wave of blocks waits for one partition of device memory, with the pitch that spreads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.cli.main import main

SPEC = """\
cugen: 1
kernel: turn
params: {N: 2048}
arrays:
  A: {shape: [N, N], dtype: float32, memory: {space: shared, pad: 1}PITCH}
  B: {shape: [N, N], dtype: float32}
compute: B[n, m] = A[m, n]
"""


@pytest.mark.parametrize(
    ("target", "pitch", "warns"),
    [("sm_13", "", True), ("sm_13", ", pitch: 2112", False), ("sm_20", "", False)],
    ids=["camping", "pitched", "hashed"],
)
def test_partition_camping_is_a_warning_until_the_pitch_is_changed(
    target: str, pitch: str, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "turn.yaml"
    path.write_text(SPEC.replace("PITCH", pitch))
    assert main(["check", str(path), "--target", target]) == 0
    printed = capsys.readouterr().out
    assert ("warning[CG2206]" in printed) == warns
    if warns:
        assert "goes to 1 of 8 partitions of device memory on sm_13" in printed
        assert "blockIdx.x + 1 is 262,144 bytes further: 1,024 times 256 bytes, and 1,024 mod 8 = 0" in printed
        assert "write `pitch: 2112` for `A`, which callers have to store so" in printed
