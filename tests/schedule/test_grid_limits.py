"""Grids beyond a target's limits: refused, folded, or checked by the launcher."""

from __future__ import annotations

import pytest

from cugen.abi.sizes import evaluate_all
from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text


def scaled(params: str, shape: str, indices: str, name: str, *, block: str = "") -> Kernel:
    """The kernel of `y[…] = 2 * x[…]`."""
    schedule = f"schedule: {{family: direct, block: {block}}}" if block else "schedule: {family: direct}"
    arrays = f"{{x: {{shape: {shape}, dtype: float32}}, y: {{shape: {shape}, dtype: float32}}}}"
    text = f"cugen: 1\nkernel: scaled\nparams: {params}\narrays: {arrays}\n"
    (spec,) = load_text(f"{text}compute: y[{indices}] = 2 * x[{indices}]\n{schedule}\n", target=name)
    return generate(spec)


def grid_of(kernel: Kernel) -> tuple[int, ...]:
    (launch,) = kernel.manifest.launches
    return evaluate_all(launch.grid, kernel.manifest.params)


@pytest.mark.parametrize(("name", "blocks"), [("sm_13", 65535), ("sm_20", 65535), ("sm_30", 65536)])
def test_the_largest_grid_along_x_is_planned(name: str, blocks: int) -> None:
    assert grid_of(scaled(f"{{N: {256 * blocks}}}", "[N]", "i", name, block="{i: 256}")) == (blocks, 1, 1)


@pytest.mark.parametrize("name", ["sm_13", "sm_20"])
def test_one_block_more_is_refused_with_the_limit(name: str) -> None:
    with pytest.raises(SpecError) as caught:
        scaled(f"{{N: {256 * 65535 + 1}}}", "[N]", "i", name, block="{i: 256}")
    (finding,) = caught.value.diagnostics
    assert finding.code == "CG3103"
    assert finding.message == f"a grid of 65536 blocks along x; {name} allows 65535"
    assert finding.key == "schedule.block"


def test_three_axes_are_two_where_grids_have_two() -> None:
    sizes = "{A: 40, B: 30, C: 64}"
    deep = grid_of(scaled(sizes, "[A, B, C]", "i, j, k", "sm_20", block="{i: 1, j: 1, k: 32}"))
    assert deep == (2, 30, 40)
    flat = scaled(sizes, "[A, B, C]", "i, j, k", "sm_13", block="{i: 1, j: 1, k: 32}")
    assert grid_of(flat) == (2, 1200, 1)
    assert verify(flat.spec, flat.source, flat.manifest, CpuDevice()).verification.passed


@pytest.mark.parametrize(
    ("name", "sizes", "grid"),
    [
        ("sm_30", (70000, 3, 64), (420000, 1, 1)),
        ("sm_90", (3, 70000, 64), (420000, 1, 1)),
        ("sm_20", (300, 300, 64), (2, 300, 300)),
        ("sm_30", (300, 300, 64), (2, 300, 300)),
    ],
)
def test_axes_beyond_their_limit_map_to_x_where_it_has_a_higher_one(
    name: str, sizes: tuple[int, int, int], grid: tuple[int, int, int]
) -> None:
    params = "{{A: {}, B: {}, C: {}}}".format(*sizes)
    assert grid_of(scaled(params, "[A, B, C]", "i, j, k", name, block="{i: 1, j: 1, k: 32}")) == grid


@pytest.mark.parametrize(
    ("name", "sizes"), [("sm_20", (70000, 3, 64)), ("sm_20", (3, 70000, 64)), ("sm_13", (300, 300, 64))]
)
def test_a_grid_that_no_mapping_fits_is_refused(name: str, sizes: tuple[int, int, int]) -> None:
    params = "{{A: {}, B: {}, C: {}}}".format(*sizes)
    with pytest.raises(SpecError, match=rf"blocks along y; {name} allows 65535"):
        scaled(params, "[A, B, C]", "i, j, k", name, block="{i: 1, j: 1, k: 32}")


def test_the_launcher_checks_sizes_that_a_dynamic_param_may_have() -> None:
    kernel = scaled("{N: dynamic}", "[N]", "i", "sm_20", block="{i: 256}")
    assert "if (ceil_div(N, 256) > 65535)\n        return cudaErrorInvalidValue;" in kernel.source
    assert "more than 65535 x 65535 x 65535 blocks are refused" in kernel.header
    within = scaled("{N: {range: [1, 16776960]}}", "[N]", "i", "sm_20", block="{i: 256}")
    assert "65535" not in within.source + within.header


def test_a_dynamic_size_that_is_always_too_large_is_refused() -> None:
    with pytest.raises(SpecError, match="a grid of 65536 blocks along x"):
        scaled("{N: {range: [16776961, 20000000]}}", "[N]", "i", "sm_20", block="{i: 256}")
