"""`inspect` with figures prints the occupancy that a block of them has."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.cli.main import main

SPEC = """\
cugen: 1
kernel: twice
arrays: {x: {shape: [1000], dtype: float32}, y: {shape: [1000], dtype: float32}}
compute: y[i] = 2 * x[i]
"""


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["inspect", *arguments]) == 0
    return capsys.readouterr().out


def test_registers_and_shared_memory_replace_those_of_a_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "twice.yaml").write_text(SPEC)
    text = printed([str(tmp_path / "twice.yaml"), "--registers", "64", "--shared", "51200"], capsys)
    assert text.startswith("twice on sm_90: 256 threads, 64 registers, 51,200 shared bytes per block\n")
    assert "50.0%: 4 blocks, 32 warps per SM, limited by registers and shared" in text


def test_templates_of_the_user_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "twice.yaml").write_text(SPEC)
    nowhere = str(tmp_path / "nowhere")
    assert main(["inspect", str(tmp_path / "twice.yaml"), "--threads", "64", "--templates", nowhere]) == 2
    assert f"error: {nowhere}: " in capsys.readouterr().err


def test_a_block_needs_no_spec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up = tmp_path / "textbook.yaml"
    made_up.write_text("cugen_target: 1\nname: textbook\nthreads_per_sm: 1536\nregisters_per_sm: 16384\n")
    text = printed(["--threads", "512", "--registers", "17", "--target-file", str(made_up)], capsys)
    assert "a block on textbook: 512 threads, 17 registers" in text
    assert "33.3%: 1 block, 16 warps per SM, limited by registers" in text


def test_unknown_registers_are_said() -> None:
    from argparse import Namespace

    from cugen.cli.what_if import occupancy_text

    args = Namespace(target="sm_80", target_file=None, threads=128, registers=None, shared=None, what="plan")
    assert "unknown registers" in occupancy_text(args, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "`--threads` is needed"),
        (["--threads", "256", "--target", "sm_99"], "unknown target 'sm_99'"),
        (["--threads", "256", "--target", "sm_80", "--target-file", "x.yaml"], "give either"),
        (["--threads", "256", "--what", "ptx"], "`--what` has no effect"),
        (["--threads", "256", "--target-file", "x.yaml"], "x.yaml"),
        (["--threads", "0"], "at least 1"),
    ],
)
def test_a_wrong_call_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *arguments]) == 2
    assert words in capsys.readouterr().err
