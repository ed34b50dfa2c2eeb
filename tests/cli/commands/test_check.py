"""`cugen check`: verdicts, limits, exit statuses, and the texts for people."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.cli import resources
from cugen.cli.main import main
from cugen.spec.load import load_all
from cugen.toolchain import cuda

Cli = Callable[..., Any]
ROOT = Path(__file__).parents[3]

TRANSPOSE = """\
cugen: 1
kernel: turn
params: {M: 128, N: 64}
arrays:
  A: {shape: [M, N], dtype: float32, memory: MEMORY}
  B: {shape: [N, M], dtype: float32}
compute: B[n, m] = A[m, n]
schedule: {block: {m: SIDE, n: SIDE}, thread: {n: SIDE}}
check: CHECK
"""


@pytest.fixture
def transpose(tmp_path: Path) -> Callable[..., Path]:
    """A transpose through a tile, with what is said of its memory, side and limits."""

    def write(memory: str = "shared", side: int = 32, check: str = "{bank_conflicts: 1}", per_thread: int = 4) -> Path:
        text = TRANSPOSE.replace("thread: {n: SIDE}", f"thread: {{n: {per_thread}}}")
        path = tmp_path / "turn.yaml"
        path.write_text(text.replace("MEMORY", memory).replace("SIDE", str(side)).replace("CHECK", check))
        return path

    return write


def the_kernel(answer: Any) -> Any:
    (kernel,) = json.loads(answer.out)["kernels"]
    return kernel


def ratio_of_the_column_read(cli: Cli, path: Path, target: str) -> float:
    kernel = the_kernel(cli("check", path, "--target", target, "--format", "json"))
    (read,) = [a for a in kernel["launches"][0]["accesses"] if a["space"] == "shared" and a["kind"] == "load"]
    ratio: float = read["ratio"]
    return ratio


def test_the_unpadded_transpose_is_32_way_with_two_lanes_that_collide(cli: Cli) -> None:
    answer = cli("check", ROOT / "specs" / "transpose_shared.yaml")
    assert answer.status == 0
    assert "warning[CG2201]: `tile[tx][ty + r]` has 32-way bank conflicts on sm_90" in answer.out
    assert "lanes 0 and 1: bytes 0 and 128 of tile, both in bank 0" in answer.out
    assert "::: transpose_shared.cu:" in answer.out
    assert answer.out.endswith("1 kernel checked: no limits are set, 1 warning\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("target", "ways"), [("1.3", 16), ("2.0", 8), ("3.5", 4), ("9.0", 8)])
def test_a_column_of_an_unpadded_16x16_tile_collides_as_each_generation_serves_it(
    cli: Cli, transpose: Callable[..., Path], target: str, ways: int
) -> None:
    path = transpose(side=16, per_thread=1)
    assert ratio_of_the_column_read(cli, path, target) == ways
    assert cli("check", path, "--target", target).status == 1


@pytest.mark.parametrize(("target", "ways"), [("1.3", 1), ("2.0", 2), ("3.5", 2), ("9.0", 2)])
def test_rows_of_17_words_cure_16_banks_and_halfway_32(
    cli: Cli, transpose: Callable[..., Path], target: str, ways: int
) -> None:
    path = transpose("{space: shared, pad: 1}", side=16, per_thread=1)
    assert ratio_of_the_column_read(cli, path, target) == ways


def test_a_passed_limit_is_an_error_at_the_memory_of_the_array(cli: Cli, transpose: Callable[..., Path]) -> None:
    path = transpose()
    answer = cli("check", path)
    assert answer.status == 1
    assert "error[CG2201]: " in answer.out
    assert f"--> {path}:5:46" in answer.out
    assert "^^^^^^ 32 × ideal, limit 1" in answer.out
    assert "the limit is `check.bank_conflicts: 1` in line 9" in answer.out
    assert answer.err == ""


@pytest.mark.parametrize(
    ("words", "device"),
    [((), "132 SMs of H200"), (("--device-name", "H100 PCIe"), "114 SMs of H100 PCIe")],
)
def test_a_limit_on_a_device_is_held_against_the_one_of_the_call(
    cli: Cli, transpose: Callable[..., Path], words: tuple[str, ...], device: str
) -> None:
    answer = cli("check", transpose(check="{grid: 1}"), *words)
    assert answer.status == 1
    assert device in answer.out


@pytest.mark.parametrize(("name", "said"), [("H101", "known are"), ("A100", "give `--target sm_80`")])
def test_a_device_that_is_unknown_or_of_another_target_is_refused(
    cli: Cli, transpose: Callable[..., Path], name: str, said: str
) -> None:
    answer = cli("check", transpose(), "--device-name", name)
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err


def test_a_copy_from_rows_in_one_bank_says_that_no_pad_helps(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "product.yaml"
    path.write_text(
        """
cugen: 1
kernel: product
params: {M: 64, K: 64, N: 128}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {family: gemm, block: {m: 64, n: 128}, thread: {m: 8, n: 8}, step: {k: 8}, stages: 3}
check: {bank_conflicts: 1}
"""
    )
    answer = cli("check", path)
    assert answer.status == 1
    assert "`As[write_stage][a_k][a_m + c]` is copied in 4 wavefronts on sm_90" in answer.out
    assert "4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)" in answer.out
    assert "rows of the array that begin in different banks" in answer.out


@pytest.mark.parametrize("memory", ["{space: shared, pad: 1}", "{space: shared, swizzle: xor}"])
def test_a_padded_or_swizzled_tile_keeps_the_limit(cli: Cli, transpose: Callable[..., Path], memory: str) -> None:
    answer = cli("check", transpose(memory))
    assert answer.status == 0
    assert answer.out.endswith("1 kernel checked: all limits kept\n")


def test_a_launch_whose_accesses_are_not_all_proved_in_bounds_says_so(cli: Cli) -> None:
    said = "bounds: 2 of 3 accesses proved, 1 unknown: table[ids_i * D + j], the subscript depends on"
    assert said in cli("check", ROOT / "specs" / "gather.yaml").out
    assert "bounds:" not in cli("check", ROOT / "specs" / "transpose_shared.yaml").out


def test_a_limit_above_the_cost_is_kept_without_a_finding(cli: Cli, transpose: Callable[..., Path]) -> None:
    answer = cli("check", transpose(check="{bank_conflicts: 32}"), "--quiet")
    assert (answer.status, answer.out, answer.err) == (0, "", "")


def test_a_decimal_limit_is_compared_exactly(cli: Cli, tmp_path: Path) -> None:
    # From byte 16 of a sector on, a warp of floats needs 5 sectors and not 4.
    path = tmp_path / "shift.yaml"
    path.write_text(
        "cugen: 1\nkernel: shift\nparams: {N: 4096}\narrays:\n"
        "  x: {shape: [N + 8], dtype: float32}\n  y: {shape: [N], dtype: float32}\n"
        "compute: y[i] = x[i + 4]\nschedule: {family: direct}\ncheck: {sectors: LIMIT}\n"
    )
    text = path.read_text()
    path.write_text(text.replace("LIMIT", "1.25"))
    assert cli("check", path).status == 0
    path.write_text(text.replace("LIMIT", "1.249"))
    answer = cli("check", path)
    assert answer.status == 1
    assert "error[CG2202]: `x[i + 4]` moves 5 sectors per warp" in answer.out
    assert f"--> {path}:7:17" in answer.out


def test_every_access_is_in_the_table(cli: Cli) -> None:
    from cugen.kernel import generate
    from cugen.plan.traversal.walking import accesses

    path = ROOT / "specs" / "matmul_register_tiles.yaml"  # whose sums are in registers
    answer = cli("check", path)
    (spec,) = load_all(path)
    planned = [a for kernel in generate(spec).plan.kernels for a in accesses(kernel.body)]
    outside_registers = [a for a in planned if a.array.space != "register"]
    rows = [line for line in answer.out.splitlines() if line.startswith(("  load ", "  store "))]
    assert len(planned) > len(outside_registers)
    assert len(rows) == len(outside_registers) > 5
    assert all(row.split()[-1] in ("ideal", "costly", "assumed", "unknown") for row in rows)


@pytest.mark.slow
def test_the_gallery_keeps_its_own_limits(cli: Cli) -> None:
    limited = [path for path in sorted((ROOT / "specs").glob("*.yaml")) if "\ncheck:" in path.read_text()]
    answer = cli("check", *limited, "--quiet")
    assert len(limited) > 3
    assert (answer.status, answer.out) == (0, "")


def test_each_access_is_found_in_its_line_of_the_source(cli: Cli) -> None:
    from cugen.kernel import generate

    path = ROOT / "specs" / "matmul_tiled.yaml"
    (spec,) = load_all(path)
    lines = generate(spec).source.splitlines()
    accesses = the_kernel(cli("check", path, "--format", "json"))["launches"][0]["accesses"]
    for access in accesses:
        assert access["text"] in lines[access["line"] - 1].partition("//")[0]


def test_several_specs_are_checked_in_one_call(cli: Cli, spec: Path, transpose: Callable[..., Path]) -> None:
    answer = cli("check", spec, transpose(), spec)
    assert answer.status == 1
    assert answer.out.index("scale on sm_") < answer.out.index("turn on sm_")
    assert answer.out.endswith("2 kernels checked: limits exceeded, 1 error\n")


def test_a_refused_spec_is_status_2_whatever_the_others_say(
    cli: Cli, tmp_path: Path, transpose: Callable[..., Path]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("cugen: 1\nkernel: bad\n")
    answer = cli("check", transpose(), bad)
    assert (answer.status, answer.out) == (2, "")
    assert "error[CG1013]" in answer.err
    assert cli("check", tmp_path / "missing.yaml").status == 2


def test_what_is_unknown_fails_a_limit_unless_it_is_allowed(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "pick.yaml"
    text = (ROOT / "specs" / "gather.yaml").read_text()
    path.write_text(text + "check: {sectors: 2}\n")
    answer = cli("check", path)
    assert answer.status == 1
    assert "error[CG2204]: the cost of `table[ids_i * D + j]` is unknown" in answer.out
    assert "depends on the value ids_i" in answer.out
    path.write_text(text + "check: {sectors: 2, unknown: allow}\n")
    assert cli("check", path).status == 0
    path.write_text(text + "check: {bank_conflicts: 1}\n")
    assert cli("check", path).status == 0


def test_what_is_assumed_of_a_target_fails_a_limit_unless_it_is_allowed(
    cli: Cli, transpose: Callable[..., Path]
) -> None:
    path = transpose("{space: shared, pad: 1}")
    assert cli("check", path, "--target", "sm_72").status == 1
    assert "error[CG2204]" in cli("check", path, "--target", "sm_72").out
    allowed = transpose("{space: shared, pad: 1}", check="{bank_conflicts: 1, unknown: allow}")
    assert cli("check", allowed, "--target", "sm_72").status == 0


def test_what_costs_more_than_its_limit_fails_even_where_doubt_is_allowed(
    cli: Cli, transpose: Callable[..., Path]
) -> None:
    path = transpose(check="{bank_conflicts: 1, unknown: allow}")
    answer = cli("check", path, "--target", "sm_72")
    assert answer.status == 1
    assert "error[CG2201]" in answer.out


def test_a_size_that_is_given_at_launch_is_judged_at_its_worst_or_as_set(cli: Cli, dynamic_spec: Path) -> None:
    dynamic_spec.write_text(dynamic_spec.read_text() + "check: {sectors: 1}\n")
    open_size = the_kernel(cli("check", dynamic_spec, "--format", "json"))
    assert open_size["params"] == {"N": None}
    assert {access["cost"] for access in open_size["launches"][0]["accesses"]} == {None}
    given = the_kernel(cli("check", dynamic_spec, "--format", "json", "--set", "N=128"))
    assert given["params"] == {"N": 128}
    assert all(access["cost"] == access["ideal"] == 16 for access in given["launches"][0]["accesses"])
    assert "shift on sm_90, N = 128\n" in cli("check", dynamic_spec, "--set", "N=128", "--target", "sm_90").out


def test_a_size_that_the_spec_excludes_is_a_wrong_call(cli: Cli, dynamic_spec: Path) -> None:
    answer = cli("check", dynamic_spec, "--set", "N=8")
    assert (answer.status, answer.out) == (2, "")
    assert "error[CG1024]: the requirement `N != 8` doesn't hold" in answer.err


def test_mixed_warps_are_counted_at_each_guard(cli: Cli, spec: Path) -> None:
    text = spec.read_text()
    spec.write_text(text + "check: {mixed_warps: 0}\n")
    answer = cli("check", spec)
    assert answer.status == 1
    assert "error[CG3203]: 1 of " in answer.out
    spec.write_text(text + "check: {mixed_warps: 1}\n")
    assert cli("check", spec).status == 0


def test_mixed_warps_of_an_open_size_are_unknown(cli: Cli, dynamic_spec: Path) -> None:
    dynamic_spec.write_text(dynamic_spec.read_text() + "check: {mixed_warps: 0}\n")
    answer = cli("check", dynamic_spec)
    assert answer.status == 1
    assert "error[CG2204]: the number of divergent warps is unknown" in answer.out
    assert "N has no value" in answer.out


def test_without_a_compiler_occupancy_is_judged_by_the_rest_and_says_so(
    cli: Cli, transpose: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "compilers", lambda: ())
    answer = cli("check", transpose("{space: shared, pad: 1}", check="{occupancy: 1}"))
    assert answer.status == 0
    assert answer.err.startswith("turn: occupancy without registers, by threads and shared memory alone: ")
    assert cli("check", transpose(check="{occupancy: 1}"), "--quiet").err == ""


def test_registers_of_a_compiler_decide_the_occupancy(
    cli: Cli, transpose: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_registers(registers: int) -> Callable[[Any], resources.Resources]:
        taken = cuda.KernelResources(registers, 0, 8, 12, 0, 0)
        return lambda kernel: resources.Resources({"turn": taken}, "nvrtc 13.0")

    path = transpose("{space: shared, pad: 1}", check="{occupancy: 0.5}")
    monkeypatch.setattr("cugen.cli.checking.resources_of", with_registers(64))
    assert cli("check", path, "--target", "sm_90").status == 0
    monkeypatch.setattr("cugen.cli.checking.resources_of", with_registers(65))
    answer = cli("check", path, "--target", "sm_90")
    assert answer.status == 1
    assert "error[CG3201]: turn fills 0.375 of the warps of an SM of sm_90" in answer.out
    assert "65 registers per thread: 3 blocks per SM, limited by registers" in answer.out
    assert "0.5 takes at most 64 registers" in answer.out


def test_spills_are_bytes_stored_and_loaded_together(
    cli: Cli, transpose: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = cuda.KernelResources(255, 0, 8, 12, 0, 0)
    monkeypatch.setattr(
        "cugen.cli.checking.resources_of", lambda kernel: resources.Resources({"turn": taken}, "nvcc 13.0")
    )
    assert cli("check", transpose("{space: shared, pad: 1}", check="{spills: 20}")).status == 0
    path = transpose("{space: shared, pad: 1}", check="{spills: 19}")
    answer = cli("check", path)
    assert answer.status == 1
    assert "error[CG3202]: each thread of turn spills 20 bytes: 8 stored, 12 loaded" in answer.out
    assert f"--> {path}:9:17" in answer.out


def test_without_a_compiler_spills_are_status_3_with_the_way_out(
    cli: Cli, transpose: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "compilers", lambda: ())
    answer = cli("check", transpose(check="{spills: 0}"))
    assert (answer.status, answer.out) == (3, "")
    assert "`check.spills` of turn needs a CUDA compiler" in answer.err
    assert "pip install" in answer.err


def test_nothing_is_compiled_unless_a_limit_asks_for_it(
    cli: Cli, transpose: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kernel: object) -> resources.Resources:
        raise AssertionError("compiled")

    monkeypatch.setattr("cugen.cli.checking.resources_of", refuse)
    assert cli("check", transpose(check="{bank_conflicts: 1, sectors: 4, mixed_warps: 9}")).status == 1


def test_quiet_leaves_the_findings_alone(cli: Cli, transpose: Callable[..., Path]) -> None:
    answer = cli("check", transpose(), "--quiet")
    assert answer.status == 1
    assert answer.out.startswith("error[CG2201]: ")
    assert "checked" not in answer.out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it(
    cli: Cli, transpose: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = transpose()
    assert "\033" not in cli("check", path).out
    monkeypatch.setenv("TERM", "xterm")
    shown = []
    for no_colour in ("", "1"):
        monkeypatch.setenv("NO_COLOR", no_colour)
        monkeypatch.setattr(sys, "stdout", Terminal())
        assert main(["check", str(path)]) == 1
        shown.append(sys.stdout.getvalue())
    assert "\033[31;1merror[CG2201]\033[0m: " in shown[0]
    assert "\033" not in shown[1]


def test_one_of_several_kernels_is_checked_by_its_name(cli: Cli) -> None:
    path = ROOT / "specs" / "matmul_tile_variants.yaml"
    kernels = json.loads(cli("check", path, "--format", "json").out)["kernels"]
    assert len(kernels) == 3
    only = the_kernel(cli("check", path, "--format", "json", "--kernel", kernels[1]["kernel"]))
    assert only == kernels[1]
