"""The state of a GPU from the lines of nvidia-smi."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cugen.cluster.gpu_state import gpu_state, parsed
from cugen.tune.devices import DeviceState


@pytest.mark.parametrize(
    ("reasons", "throttled"),
    [
        ("0x0000000000000000", ""),
        ("0x0000000000000001", ""),  # idle
        ("0x0000000000000004", ""),  # power cap
        ("0x0000000000000024", "software thermal slowdown"),
        ("0x00000000000000C8", "hardware slowdown, hardware thermal slowdown, power brake"),
    ],
)
def test_clocks_that_are_held_back_have_a_reason(reasons: str, throttled: str) -> None:
    state = parsed(f"580.65.06, 1980, 3201, {reasons}", "", 1)
    assert state == DeviceState("580.65.06", 1980, 3201, throttled)


@pytest.mark.parametrize(("processes", "others"), [("", 0), ("17", 0), ("17\n18\n19", 2)])
def test_processes_but_the_own_ones_share_the_gpu(processes: str, others: int) -> None:
    assert parsed("580.65.06, 1980, 3201, 0x0", processes, 1).other_processes == others


@pytest.mark.parametrize("state", ["", "No devices were found", "580, [N/A], [N/A], [N/A]"])
def test_what_is_not_said_is_unknown(state: str) -> None:
    assert parsed(state, "", 1) in (DeviceState(), DeviceState("580"))


def test_the_program_is_asked_for_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\ncase "$*" in *apps*) echo 7; echo 8;; *--id=GPU-1*) echo "580, 1, 2, 0x8";; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert gpu_state("GPU-1", 1) == DeviceState("580", 1, 2, "hardware slowdown", 1)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert gpu_state("GPU-1", 1) == DeviceState()
