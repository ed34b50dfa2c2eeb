"""The default tiles of G80, GT200 and Fermi: every access is coalesced and free of bank conflicts."""

from __future__ import annotations

import pytest

from cugen.cli.main import main
from cugen.kernel import Kernel, generate
from cugen.kernel_report import analyze
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

OLD = ("sm_10", "sm_13", "sm_20")
STATIC = "{M: 512, N: 512, K: 512}"
ALIGNED = "{M: $, N: $, K: $}".replace("$", "{range: [64, 8192], multiple_of: 64}")


def spec_text(params: str, memory: str = ", memory: shared") -> str:
    return f"""\
cugen: 1
kernel: product
params: {params}
arrays:
  A: {{shape: [M, K], dtype: float32{memory}}}
  B: {{shape: [K, N], dtype: float32{memory}}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


def made(text: str, name: str) -> Kernel:
    (spec,) = load_text(text, target=name)
    return generate(spec)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", OLD)
@pytest.mark.parametrize("params", [STATIC, ALIGNED], ids=["static", "dynamic"])
@pytest.mark.parametrize("memory", [", memory: shared", ""], ids=["shared", "open"])
def test_every_access_of_the_default_plan_is_ideal(name: str, params: str, memory: str) -> None:
    kernel = made(spec_text(params, memory), name)
    (planned,) = kernel.plan.kernels
    assert planned.family == "tiled"
    verdicts = {access.text: access.verdict for report in kernel.reports for access in report.accesses}
    assert set(verdicts.values()) == {"ideal"}, verdicts


@pytest.mark.slow
@pytest.mark.parametrize("name", OLD)
def test_any_size_is_free_of_bank_conflicts(name: str) -> None:
    kernel = made(spec_text("{M: dynamic, N: dynamic, K: dynamic}"), name)
    shared = [access for report in kernel.reports for access in report.accesses if access.space == "shared"]
    assert len(shared) == 4
    assert [access.text for access in shared if access.verdict != "ideal"] == []


@pytest.mark.parametrize(("name", "threads", "warps"), [("sm_10", 256, 24), ("sm_13", 256, 16), ("sm_20", 256, 24)])
def test_an_sm_holds_several_blocks(name: str, threads: int, warps: int) -> None:
    (launch,) = analyze(made(spec_text(STATIC), name)).kernels
    assert launch.facts.launch.threads == threads
    assert launch.facts.occupancy.occupancy.warps_per_sm >= warps


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OLD)
def test_the_tiles_compute_the_product(name: str) -> None:
    kernel = made(spec_text("{M: 70, N: 65, K: 130}"), name)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OLD)
def test_inspect_says_so(name: str, tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "product.yaml"
    path.write_text(spec_text(STATIC))
    assert main(["inspect", str(path), "--what", "analysis", "--target", name]) == 0
    out = capsys.readouterr().out
    assert "costly" not in out
    assert "L2" not in out
    assert ("2 x 64 bytes" if name != "sm_20" else "1 x 128 bytes") in out


def test_a_gemm_of_a_device_without_l2_is_not_limited_by_it() -> None:
    text = spec_text(STATIC, "") + "schedule: {family: gemm}\n"
    assert not any("L2" in reason for reason in made(text, "sm_13").plan.kernels[0].reasons)


def test_the_broadcast_of_each_half_warp_on_g80_is_of_a_word_in_one_bank() -> None:
    (report,) = made(spec_text(STATIC), "sm_10").reports
    (claim,) = [access.claim for access in report.accesses if access.text == "As[ty][k]"]
    assert claim == "2 wavefronts, ideal 2 (2 words over 1 bank)"
