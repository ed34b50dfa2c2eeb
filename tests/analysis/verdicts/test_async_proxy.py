"""What TMA and wgmma access: closed forms of whole GEMMs, and operands whose layout isn't proved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import sites
from cugen.analysis.verdicts.comments import remarks_on, reports_of
from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.analysis.verdicts.report import AccessReport, analyze_kernel, site_totals
from cugen.kernel import Kernel, generate
from cugen.machine import target
from cugen.plan.memory import Access
from cugen.plan.pipeline_nodes import AwaitBarrier, TensorLoad, TensorStore, Wgmma
from cugen.plan.symbols import integer
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.load import load_text
from tests.drawn import examples

SM_90A = target("sm_90a")


def gemm(m: str, n: str, k: str, *, b: str = "[N, K]", out: str = "bfloat16", schedule: str = "") -> Kernel:
    read = "n, k" if b == "[N, K]" else "k, n"
    text = f"""
cugen: 1
kernel: product
target: sm_90a
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  A: {{shape: [M, K], dtype: bfloat16}}
  B: {{shape: {b}, dtype: bfloat16}}
  C: {{shape: [M, N], dtype: {out}}}
compute: C[m, n] = sum(A[m, k] * B[{read}], k)
schedule: {{family: wgmma{schedule}}}
"""
    (spec,) = load_text(text)
    return generate(spec)


def all_reports(kernel: Kernel) -> tuple[AccessReport, ...]:
    (launch,) = kernel.plan.kernels
    return analyze_kernel(launch, "sm_90a", {p.name: p.value for p in kernel.spec.params}).accesses


def reports(kernel: Kernel) -> dict[tuple[str, str], AccessReport]:
    return {(report.access.array.symbol, report.access.kind): report for report in all_reports(kernel)}


def wgmmas_along_k(k: int) -> int:
    """Instructions for K, each of 16 terms: four of each k-tile, but for those of zeros that the last one leaves out,
    where they are a 16th or more of all."""
    with_a_term, of_tiles = -(-k // 16), 4 * -(-k // 64)
    return with_a_term if 16 * (of_tiles - with_a_term) >= of_tiles else of_tiles


@settings(max_examples=examples(8), deadline=None)
@given(
    st.integers(1, 700),
    st.integers(1, 60),
    st.integers(1, 60),
    st.sampled_from(["[N, K]", "[K, N]"]),
    st.sampled_from([128, 256]),
)
def test_whole_gemms_copy_each_operand_once_per_tile_and_store_each_element_once(m, n, k, b, block_n):
    n, k = 8 * n, 8 * k
    kernel = gemm(str(m), str(n), str(k), b=b, schedule=f", block: {{m: 64, n: {block_n}}}, split_k: 1")
    (launch,) = kernel.plan.kernels
    found = reports(kernel)
    tiles_m, tiles_n, k_tiles = -(-m // 64), -(-n // block_n), -(-k // 64)

    copied = (
        (found["A_map", "tensor_load"], k, tiles_n * m * k),
        (found["B_map", "tensor_load"], k if b == "[N, K]" else n, tiles_m * n * k),
        (found["C_map", "tensor_store"], n, m * n),
    )
    for report, pitch, elements in copied:
        moved = 32 * report.totals.sectors
        assert (moved == 2 * elements) if pitch % 16 == 0 else (moved > 2 * elements)
    operands = [report for report in all_reports(kernel) if report.access.kind == "operand"]
    of_a, of_b = (
        sum(report.totals.requests for report in operands if report.access.array.symbol == tile)
        for tile in ("As", "Bs")
    )
    assert of_a == of_b == tiles_m * tiles_n * wgmmas_along_k(k)
    assert sum(report.totals.wavefronts for report in operands) == of_a * (64 + block_n) * 32 // 128
    written = sum(found[tile, "tensor_store"].totals.wavefronts for tile in ("As", "Bs"))
    assert written == tiles_m * tiles_n * k_tiles * (64 + block_n)  # rows of boxes, zeros beyond the array
    assert launch.threads == 160


def test_rows_between_sector_boundaries_are_costly_by_an_assumption():
    report = reports(gemm("256", "256", "520"))["A_map", "tensor_load"]
    assert report.verdict == "assumed"
    assert (
        report.per_request.worst * 8 == report.per_request.worst_ideal * 9
    )  # every other row begins between two sectors


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("multiple", "verdict"), [(8, "assumed"), (16, "ideal")])
def test_rows_of_any_size_are_judged_by_what_divides_them(multiple, verdict):
    size = f"{{range: [{multiple}, 8192], multiple_of: {multiple}}}"
    kernel = gemm("dynamic", size, size)
    (launch,) = kernel.plan.kernels
    found = analyze_any_size(launch, "sm_90a", {}, {"M": 1, "N": multiple, "K": multiple}).accesses
    verdicts = {report.access.array.symbol: report.verdict for report in found}
    assert verdicts == {
        "A_map": verdict,
        "B_map": verdict,
        "C_map": verdict,
        "As": "ideal",
        "Bs": "ideal",
        "c_tile": "ideal",
    }


def convolution(images: str, channels: int) -> Kernel:
    (spec,) = load_text(f"""
cugen: 1
kernel: conv
target: sm_90a
params: {{N: {images}, H: 9, W: 11, C: {channels}, K: 64}}
arrays:
  x: {{shape: [N, H, W, C], dtype: bfloat16, boundary: zero}}
  w: {{shape: [K, 3, 3, C], dtype: bfloat16}}
  y: {{shape: [N, H, W, K], dtype: float32}}
compute: y[n, h, q, k] = sum(x[n, h + r - 1, q + s - 1, c] * w[k, r, s, c], r, s, c)
schedule: {{family: wgmma}}
""")
    return generate(spec)


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(1, 20), st.sampled_from([16, 48, 64, 128, 192]))
def test_convolutions_copy_the_pixels_of_each_tap_that_are_inside_once_per_column_of_tiles(images, channels):
    found = reports(convolution(str(images), channels))
    block_m, block_n = (int(found[tile, "tensor_store"].access.array.shape[1]) for tile in ("xs", "ws"))
    tiles_m, tiles_n, k_tiles = -(-images * 99 // block_m), -(-64 // block_n), 9 * -(-channels // 64)
    pixels = images * (3 * 9 - 2) * (3 * 11 - 2)  # of all taps; of each but the middle ones, a row or column is outside
    copied = found["x_map", "tensor_load"]
    assert copied.totals.sectors == tiles_n * pixels * channels // 16
    assert (copied.verdict, copied.totals.requests) == ("ideal", tiles_m * tiles_n * k_tiles)
    # In shared memory boxes are whole.
    assert found["xs", "tensor_store"].totals.wavefronts == tiles_m * tiles_n * k_tiles * block_m


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("channels", "verdict"), [(64, "ideal"), (16, "ideal"), (40, "unknown")])
def test_pixels_of_any_number_of_images_are_judged_where_they_are_whole_sectors(channels, verdict):
    (launch,) = convolution("dynamic", channels).plan.kernels
    found = analyze_any_size(launch, "sm_90a", {"H": 9, "W": 11, "C": channels, "K": 64}, {"N": 1}).accesses
    (copied,) = [report for report in found if report.access.array.symbol == "x_map"]
    assert copied.verdict == verdict
    if verdict == "ideal":
        rows = int(copied.access.array.tensor_map.box[-2])
        assert copied.per_request.worst == rows * min(channels, 64) // 16  # without the padded channels
    else:
        assert "isn't counted for every size" in copied.claim


def operand(kernel: Kernel) -> tuple[Wgmma, Access]:
    (launch,) = kernel.plan.kernels
    (node,) = [node for node in walk_nodes(launch.body) if isinstance(node, Wgmma)]
    return node, node.b


@pytest.mark.sampled(2)
@pytest.mark.parametrize("b", ["[N, K]", "[K, N]"])
@pytest.mark.parametrize("fault", ["offset", "row", "pitch", "column"])
def test_operands_that_are_not_swizzled_tiles_from_1024_bytes_on_are_unknown(b, fault):
    kernel = gemm("256", "256", "256", b=b, schedule=", block: {m: 128, n: 128}")
    (launch,) = kernel.plan.kernels
    node, access = operand(kernel)
    (site,) = [site for site in sites(launch, {"M": 256, "N": 256, "K": 256}) if site.access is access]
    assert site_totals(launch, site, SM_90A)[0].wavefronts > 0
    *outer, row, column = access.subscripts
    array = access.array
    moved = {
        "offset": replace(access, array=replace(array, dynamic_offset=array.dynamic_offset + 512)),
        "row": replace(access, subscripts=(*outer, row + 4, column)),
        "pitch": replace(
            access, array=replace(array, strides=(*array.strides[:-2], 2 * array.strides[-2], integer(1)))
        ),
        "column": replace(access, subscripts=(*outer, row, column + 8)),
    }[fault]
    elsewhere = replace(site, access=moved, instruction=replace(node, b=moved))
    with pytest.raises(Unknown, match="bank conflicts of this operand"):
        site_totals(launch, elsewhere, SM_90A)


def test_a_tile_that_is_not_proved_to_be_aligned_is_unknown():
    kernel = gemm("256", "256", "256")
    (launch,) = kernel.plan.kernels
    (store,) = [node for node in walk_nodes(launch.body) if isinstance(node, TensorStore)]
    access = store.source
    (site,) = [site for site in sites(launch, {"M": 256, "N": 256, "K": 256}) if site.access is access]
    moved = replace(access, array=replace(access.array, dynamic_offset=access.array.dynamic_offset + 64))
    with pytest.raises(Unknown, match="proved to begin at a multiple"):
        site_totals(launch, replace(site, access=moved, instruction=replace(store, source=moved)), SM_90A)


def test_mbarriers_have_one_line_in_the_head_and_no_remark():
    kernel = gemm("256", "256", "256")
    reported = reports_of(kernel.context, kernel.plan)
    remarks = remarks_on(kernel.plan, reported, lists_ideal=True)
    (launch,) = kernel.plan.kernels
    waits = [node.barrier.serial for node in walk_nodes(launch.body) if isinstance(node, AwaitBarrier)]
    assert waits
    assert not {*remarks.claims, *remarks.listed} & {*waits}
    assert [line for line in remarks.summary if "mbarrier" in line] == [
        "mbarriers: one address per warp, so without bank conflicts; how often waits poll is not static"
    ]


def test_a_multicast_writes_the_shared_memory_of_all_its_blocks_and_reads_the_box_once():
    kernel = gemm("256", "256", "256")
    (launch,) = kernel.plan.kernels
    load = next(node for node in walk_nodes(launch.body) if isinstance(node, TensorLoad))
    found = {site.access.serial: site for site in sites(launch, {"M": 256, "N": 256, "K": 256})}

    def totals(access: Access, blocks: int):
        site = replace(found[access.serial], instruction=replace(load, blocks=blocks))
        return site_totals(launch, site, SM_90A)[0]

    assert totals(load.target, 4).wavefronts == 4 * totals(load.target, 1).wavefronts > 0
    assert totals(load.source, 4).sectors == totals(load.source, 1).sectors > 0
