"""`cugen fix`: the patch, the file that it writes, the figures, and what it says of what it can't cure."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.spec.editing import EditMismatch
from cugen.spec.load import load, load_all

Cli = Callable[..., Any]
ROOT = Path(__file__).parents[3]

TRANSPOSE = """\
# How a matrix is turned
cugen: 1
kernel: turn
params: {M: 128, N: 64}   # small
arrays:
  A:
    dtype: float32        # single
    memory: shared        # the tile
    shape: [M, N]
  # the result
  B: {shape: [N, M], dtype: float32}
compute: B[n, m] = A[m, n]
schedule: {block: {m: 32, n: 32}, thread: {n: 4}}
check: {bank_conflicts: 1}
"""
PRODUCT = """\
cugen: 1
kernel: product
target: sm_90
params: {M: 64, K: 48, N: 80}
arrays:
  A: {shape: [M, K], dtype: float32, memory: {space: shared, pad: 1}}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}, step: {k: 16}}
check: {bank_conflicts: 1}
"""
STRIDED = """\
cugen: 1
kernel: strided
params: {N: 1024}
arrays:
  w: {shape: [64], dtype: float32, memory: shared}
  y: {shape: [N], dtype: float32}
compute: y[i] = w[(i * 2) % 64]
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "turn.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


def fix(cli: Cli, *words: object) -> Any:
    return cli("fix", *words, "--device", "cpu")


@pytest.mark.slow
def test_the_32_way_transpose_is_fixed_and_then_passes_its_check(cli: Cli, file: Callable[..., Path]) -> None:
    path = file(TRANSPOSE)
    before = cli("check", path)
    assert before.status == 1
    assert "`tile[tx][ty + r]` has 32-way bank conflicts" in before.out
    assert "lanes 0 and 1: bytes 0 and 128 of tile, both in bank 0" in before.out
    answer = fix(cli, path, "--write")
    assert answer.status == 0
    assert answer.out.endswith(f"wrote {path}\n")
    assert path.read_text() == TRANSPOSE.replace("memory: shared   ", "memory: {space: shared, pad: 1}   ")
    after = cli("check", path)
    assert (after.status, after.out.splitlines()[-1]) == (0, "1 kernel checked: all limits kept")
    assert fix(cli, path, "--write").out.startswith("turn on sm_90: nothing to fix")


@pytest.mark.slow
def test_costs_and_a_verified_run_precede_the_patch(cli: Cli, file: Callable[..., Path]) -> None:
    path = file(TRANSPOSE)
    answer = fix(cli, path, "--target", "sm_90")
    assert answer.status == 0
    assert "turn on sm_90: pad: 1 for A\n" in answer.out
    assert "wavefronts    8,448 → 512 over the launch, ideal 512\n" in answer.out
    assert "shared bytes  4,096 → 4,224 per block\n" in answer.out
    assert "occupancy     8 blocks per SM (1) → 8 blocks per SM (1), registers not counted\n" in answer.out
    assert "tile[tx][ty + r]: gcd(32 + pad, 32)\n" in answer.out
    assert "turn ran on the cpu: all of the outputs' elements right, largest error 0, allowed 0\n" in answer.out
    assert path.read_text() == TRANSPOSE


@pytest.mark.sampled(2)
@pytest.mark.parametrize("line_break", [pytest.param("\n", id="lf"), pytest.param("\r\n", id="crlf")])
def test_the_patch_is_one_that_patch_programs_take(
    cli: Cli, file: Callable[..., Path], tmp_path: Path, line_break: str
) -> None:
    path = file(TRANSPOSE.replace("\n", line_break).removesuffix(line_break))
    content = json.loads(fix(cli, path, "--json").out)
    patch = content["patch"].replace(str(path), f"x/{path.name}")
    subprocess.run(["git", "apply", "-p1", "-"], input=patch.encode(), cwd=tmp_path, check=True, timeout=60)
    assert load(path).array("A").memory.pad == 1
    assert path.read_bytes().count(line_break.encode()) == TRANSPOSE.count("\n") - 1


def test_quiet_prints_the_patch_alone(cli: Cli, file: Callable[..., Path]) -> None:
    answer = fix(cli, file(TRANSPOSE), "--quiet")
    assert (answer.status, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].startswith("--- ")
    assert lines[1].startswith("+++ ")
    assert [line for line in lines[2:] if line[0] in "+-"] == [
        "-    memory: shared        # the tile",
        "+    memory: {space: shared, pad: 1}        # the tile",
    ]
    assert fix(cli, file(TRANSPOSE.replace("memory: shared", "memory: {space: shared, pad: 1}")), "-q").out == ""


@pytest.mark.slow
def test_colour_is_for_terminals(cli: Cli, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(TRANSPOSE)
    assert "\033" not in fix(cli, path).out
    monkeypatch.setattr("cugen.cli.text.terminal.has_colour", lambda stream: True)
    painted = fix(cli, path).out
    assert "\033[31;1m-    memory: shared        # the tile\033[0m\n" in painted
    assert "\033[32m+    memory: {space: shared, pad: 1}        # the tile\033[0m\n" in painted


@pytest.mark.slow
def test_a_pad_that_makes_stores_collide_is_taken_away(cli: Cli, file: Callable[..., Path]) -> None:
    path = file(PRODUCT)
    assert "`As[ty][tx]` has 2-way bank conflicts on sm_90" in cli("check", path).out
    assert fix(cli, path, "--write", "--quiet").status == 0
    assert path.read_text() == PRODUCT.replace("pad: 1", "pad: 0")
    assert cli("check", path).status == 0


def test_json_is_one_object_with_every_figure(cli: Cli, file: Callable[..., Path]) -> None:
    path = file(PRODUCT)
    content = json.loads(fix(cli, path, "--json").out)
    assert (content["file"], content["cured"], content["written"], content["device"]) == (
        str(path),
        True,
        False,
        "cpu",
    )
    (document,) = content["documents"]
    (offered,) = document["fixes"]
    assert (document["kernels"], offered["array"], offered["set"]) == (["product"], "A", {"pad": 0})
    (launch,) = offered["launches"]
    assert launch["before"]["wavefronts"] > launch["after"]["wavefronts"] == launch["after"]["ideal"]
    assert launch["before"]["shared_bytes"] == launch["after"]["shared_bytes"] + 64
    assert offered["why"][0] == "As[ty][tx]: 1 at pad mod 32 = 0, else 2"
    assert (document["runs"][0]["passed"], document["runs"][0]["checked"]) == (True, "all")
    assert (document["incurable"], document["unknown"], document["left"]) == ([], [], [])


def test_what_no_pad_cures_is_status_1_with_its_law(cli: Cli, file: Callable[..., Path]) -> None:
    path = file(STRIDED)
    answer = fix(cli, path, "--write")
    assert answer.status == 1
    assert "strided on sm_90: no cure for w: no pad makes it cheaper" in answer.out
    assert "w_tile[threadIdx.x * 2 % 64]: 2 at every pad" in answer.out
    assert "---" not in answer.out
    assert path.read_text() == STRIDED


def test_findings_about_other_memory_are_listed(cli: Cli, file: Callable[..., Path]) -> None:
    text = "cugen: 1\nkernel: shift\nparams: {N: 4096}\narrays:\n  x: {shape: [2 * N], dtype: float32}\n"
    text += "  y: {shape: [N], dtype: float32}\ncompute: y[i] = x[2 * i]\nschedule: {family: direct}\n"
    path = file(text)
    answer = fix(cli, path)
    assert answer.status == 0
    assert "shift on sm_90: nothing to fix" in answer.out
    assert "remaining warning[CG2202]: `x[2 * i]` moves 8 sectors per warp" in answer.out
    assert "  cure          adjacent threads have to access consecutive elements" in answer.out
    path.write_text(f"{text}check: {{sectors: 1}}\n")
    assert fix(cli, path).status == 1


POINTS = """\
cugen: 1
kernel: points
params: {N: 60000}
arrays:
  point: {shape: [N, 3], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = point[i, 0] + point[i, 1] + point[i, 2]
"""


def test_a_layout_is_proposed_with_its_sectors_and_left_to_the_user(cli: Cli, file: Callable[..., Path]) -> None:
    path = file(POINTS)
    answer = fix(cli, path, "--write")
    assert answer.status == 0
    assert "points on sm_90: proposal: layout: column for point\n" in answer.out
    assert "sectors       52,500 → 30,000, 1.75 times fewer, ideal 30,000\n" in answer.out
    assert "callers have to store point so" in answer.out
    assert path.read_text() == POINTS
    (document,) = json.loads(fix(cli, path, "--json").out)["documents"]
    (proposal,) = document["proposals"]
    assert proposal == {
        "array": "point",
        "change": "layout: column",
        "before": {"moved": 52500, "ideal": 30000},
        "after": {"moved": 30000, "ideal": 30000},
        "sizes": {},
    }
    path.write_text(POINTS.replace("float32}\n  y", "float32, layout: column}\n  y"))
    assert "proposal" not in fix(cli, path).out


def test_accesses_that_depend_on_data_are_listed(cli: Cli, file: Callable[..., Path]) -> None:
    text = STRIDED.replace("  y:", "  x: {shape: [N], dtype: int32}\n  y:").replace("(i * 2)", "x[i]")
    answer = fix(cli, file(text))
    assert answer.status == 0
    assert "not fixed: load w_tile[floor_mod(x_i, 64)]: unknown" in answer.out


def test_a_pad_that_comes_from_a_variant_is_refused_in_a_sentence(cli: Cli, file: Callable[..., Path]) -> None:
    text = TRANSPOSE.replace("arrays:", "variants: {p: [0, 2]}\narrays:")
    path = file(text.replace("memory: shared", "memory: {space: shared, pad: $p}"))
    answer = fix(cli, path, "--write")
    assert (answer.status, answer.out) == (1, "")
    assert "`pad: 1` for A would help, but `pad` in line 9 comes from a variant: `$p`" in answer.err


@pytest.mark.slow
def test_all_variants_are_run_with_what_is_offered(cli: Cli, file: Callable[..., Path]) -> None:
    path = file(TRANSPOSE.replace("arrays:", "variants: {w: [1, 4]}\narrays:").replace("n: 4}", "n: $w}"))
    answer = fix(cli, path, "--write", "--kernel", "turn__4")
    assert answer.status == 0
    assert "turn__1 ran on the cpu: all" in answer.out
    assert "turn__4 ran on the cpu: all" in answer.out
    assert [spec.array("A").memory.pad for spec in load_all(path)] == [1, 1]


@pytest.mark.slow
def test_one_of_several_documents_is_fixed_by_its_name(cli: Cli, file: Callable[..., Path]) -> None:
    parts = [TRANSPOSE.replace("turn", name) for name in ("one", "two")]
    path = file("---\n".join(parts))
    assert fix(cli, path, "--kernel", "two", "--write").status == 0
    assert path.read_text() == parts[0] + "---\n" + parts[1].replace(
        "memory: shared", "memory: {space: shared, pad: 1}"
    )
    assert fix(cli, path, "--write").status == 0
    assert [spec.array("A").memory.pad for spec in load_all(path)] == [1, 1]


@pytest.mark.slow
def test_sizes_that_are_given_at_launch_take_usual_values_for_the_run(cli: Cli, file: Callable[..., Path]) -> None:
    path = file(TRANSPOSE.replace("{M: 128, N: 64}", "{M: dynamic, N: {range: [0, 40], multiple_of: 3}}"))
    answer = fix(cli, path)
    assert answer.status == 0
    assert "wavefronts    33 → 2 at the worst request of each access, ideal 2\n" in answer.out
    assert "turn ran on the cpu, M = 64 (chosen), N = 39 (chosen): all" in answer.out
    assert "turn ran on the cpu, M = 100 (--set), N = 39 (chosen): all" in fix(cli, path, "--set", "M=100").out
    with_default = path.read_text().replace("M: dynamic", "M: {default: 96}")
    path.write_text(with_default)
    assert "turn ran on the cpu, M = 96 (default), N = 39 (chosen): all" in fix(cli, path).out
    path.write_text(f"{with_default}require: [M % 64 == 1]\n")
    answer = fix(cli, path)
    assert (answer.status, answer.out) == (2, "")
    assert "`M % 64 == 1` doesn't hold" in answer.err


@pytest.mark.slow
def test_a_link_to_a_spec_stays_a_link(cli: Cli, file: Callable[..., Path], tmp_path: Path) -> None:
    path, link = file(TRANSPOSE), tmp_path / "link.yaml"
    link.symlink_to(path.name)
    assert fix(cli, link, "--write").status == 0
    assert link.is_symlink()
    assert load(path).array("A").memory.pad == 1


def test_nothing_is_written_where_the_edit_went_wrong(
    cli: Cli, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def misread(*args: object) -> object:
        raise EditMismatch("the edited file means something else than it should")

    monkeypatch.setattr("cugen.spec.editing.rewrite", misread)
    path = file(TRANSPOSE)
    answer = fix(cli, path, "--write")
    assert (answer.status, answer.out) == (4, "")
    assert "internal error of cugen: the edited file means something else" in answer.err
    assert path.read_text() == TRANSPOSE


def test_nothing_is_offered_that_computes_something_else(
    cli: Cli, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from cugen.runtime import verify

    def wrong(*args: Any, **options: Any) -> verify.Run:
        run = genuine(*args, **options)
        return replace(run, verification=replace(run.verification, passed=False, messages=("B: 1 element differs",)))

    genuine = verify.verify
    monkeypatch.setattr(verify, "verify", wrong)
    path = file(TRANSPOSE)
    answer = fix(cli, path, "--write")
    assert (answer.status, answer.out) == (4, "")
    assert "has wrong results with the new tile layout:\n  B: 1 element differs" in answer.err
    assert path.read_text() == TRANSPOSE


def test_a_refused_spec_is_status_2(cli: Cli, file: Callable[..., Path], tmp_path: Path) -> None:
    assert fix(cli, tmp_path / "missing.yaml").status == 2
    assert fix(cli, file("cugen: 1\nkernel: bad\n")).status == 2
    assert fix(cli, file(TRANSPOSE), "--kernel", "other").status == 2
    assert fix(cli, file(TRANSPOSE), "--set", "Q=1").status == 2


def test_the_example_of_the_manual_is_what_fix_prints(cli: Cli) -> None:
    section = (ROOT / "docs" / "analysis.md").read_text().split("## Fixing what check finds")[1]
    shown = section.split("```")[1].strip("\n")
    assert shown.startswith("transpose_shared on sm_90")
    assert shown in fix(cli, ROOT / "specs" / "transpose_shared.yaml").out
