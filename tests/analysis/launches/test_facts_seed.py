"""Figures of the literature on whole kernels, asked of the public API."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

import cugen
from cugen.analysis.launches.roofline import bandwidth_for, bound
from cugen.machine import Target, device
from cugen.spec.load import load_text

TEXTBOOK = Target("textbook", threads_per_sm=1536, registers_per_sm=16384, register_unit=1)


@dataclass(frozen=True)
class Compiled:
    """What a compiler would have decided."""

    registers: int
    spill_stores: int = 0
    spill_loads: int = 0
    stack_bytes: int = 0


def spec_of(text: str):
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    return spec


def launch_of(spec, **options):
    (launch,) = cugen.analyze(spec, **options).kernels
    return launch


def naive_product(n: int, block: int = 16):
    return spec_of(f"""
params: {{N: {n}}}
arrays:
  A: {{shape: [N, N], dtype: float32}}
  B: {{shape: [N, N], dtype: float32}}
  C: {{shape: [N, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{family: direct, block: {{m: {block}, n: {block}}}}}
""")


def tiled_product(n: int, tile: int = 16):
    return spec_of(f"""
params: {{N: {n}}}
arrays:
  A: {{shape: [N, N], dtype: float32, memory: shared}}
  B: {{shape: [N, N], dtype: float32, memory: shared}}
  C: {{shape: [N, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{block: {{m: {tile}, n: {tile}}}, step: {{k: {tile}}}}}
""")


def copy(threads: int, n: int = 4096):
    return spec_of(f"""
params: {{N: {n}}}
arrays:
  A: {{shape: [N], dtype: float32}}
  C: {{shape: [N], dtype: float32}}
compute: C[i] = A[i]
schedule: {{family: direct, block: {{i: {threads}}}}}
""")


def worst(launch, name: str) -> int:
    """The most that one request of an array in global or constant memory costs."""
    actual = next(a for a in launch.accesses if a.access.array.name == name and a.space != "shared")
    return actual.per_request.worst


@pytest.mark.parametrize(("block", "a", "b"), [(32, 1, 4), (16, 2, 2)])
def test_32_sectors_of_the_naive_product(block, a, b):
    launch = launch_of(naive_product(1024, block))
    assert (worst(launch, "A"), worst(launch, "B")) == (a, b)


@pytest.mark.parametrize(("row", "sectors"), [(1024, 4), (100, 5)])
def test_33_sectors_of_a_tile_load_depend_on_the_row_length(row, sectors):
    launch = launch_of(tiled_product(row))
    assert worst(launch, "A") == sectors


@pytest.mark.parametrize(("index", "requests"), [("0", 1), ("i % 4", 4), ("i % 32", 32)])
def test_34_constants_take_a_request_for_each_address(index, requests):
    launch = launch_of(
        spec_of(f"""
params: {{N: 1024}}
arrays:
  taps: {{shape: [32], dtype: float32, memory: constant}}
  A: {{shape: [N], dtype: float32}}
  C: {{shape: [N], dtype: float32}}
compute: C[i] = A[i] * taps[{index}]
schedule: {{family: direct}}
""")
    )
    constant = launch.facts.constant
    assert worst(launch, "taps") == requests
    assert constant.requests == requests * constant.loads
    assert constant.is_uniform == (requests == 1)
    assert constant.bytes_used == 128


def occupancy_of(threads: int, registers: int, **options):
    resources = {"k": Compiled(registers)}
    return launch_of(copy(threads), resources=resources, **options).facts.occupancy.occupancy


def test_35_one_register_more_costs_a_made_up_sm_a_third_of_its_threads():
    assert occupancy_of(512, 10, target=TEXTBOOK).warps_per_sm * 32 == 1536
    assert occupancy_of(512, 11, target=TEXTBOOK).warps_per_sm * 32 == 1024


@pytest.mark.parametrize(
    ("target", "threads", "registers", "blocks"),
    [
        ("sm_13", 256, 20, 3),
        ("sm_13", 256, 22, 2),
        ("sm_20", 512, 20, 3),
        ("sm_20", 512, 21, 2),
        ("sm_90", 256, 32, 8),
        ("sm_90", 256, 33, 6),
        ("sm_90", 256, 64, 4),
        ("sm_90", 1024, 64, 1),
        ("sm_90", 1024, 65, 0),
    ],
)
def test_36_39_40_41_blocks_per_sm_by_registers(target, threads, registers, blocks):
    assert occupancy_of(threads, registers, target=target).blocks_per_sm == blocks


@pytest.mark.parametrize(("target", "kilobytes", "blocks"), [("sm_13", 5, 3), ("sm_90", 7, 28)])
def test_37_43_blocks_of_64_threads_per_sm_by_static_shared_memory(target, kilobytes, blocks):
    spec = spec_of(f"""
params: {{N: 4096, T: {kilobytes * 256}}}
arrays:
  t: {{shape: [T], dtype: float32, memory: shared}}
  C: {{shape: [N], dtype: float32}}
compute: C[i] = t[i % T]
schedule: {{family: direct, block: {{i: 64}}}}
""")
    actual = launch_of(spec, target=target).facts.occupancy
    assert actual.shared_bytes == kilobytes * 1024
    assert (actual.occupancy.blocks_per_sm, actual.occupancy.limited_by) == (blocks, ("shared",))


@pytest.mark.parametrize(("kilobytes", "blocks"), [(48, 4), (64, 3)])
def test_42_blocks_of_256_threads_per_sm_by_dynamic_shared_memory(kilobytes, blocks):
    spec = spec_of(f"""
params: {{N: 256}}
arrays:
  A: {{shape: [N, N], dtype: float32, memory: {{space: shared, dynamic: true}}}}
  B: {{shape: [N, N], dtype: float32, memory: {{space: shared, dynamic: true}}}}
  C: {{shape: [N, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{block: {{m: 64, n: 64}}, thread: {{m: 4, n: 4}}, step: {{k: {kilobytes * 2}}}}}
""")
    actual = launch_of(spec).facts.occupancy
    assert (actual.threads, actual.shared_bytes) == (256, kilobytes * 1024)
    assert (actual.occupancy.blocks_per_sm, actual.occupancy.limited_by) == (blocks, ("shared",))


def test_38_two_16x16_tiles_in_each_of_six_blocks_take_12_kb():
    actual = launch_of(tiled_product(64), target="sm_20").facts.occupancy
    assert (actual.occupancy.blocks_per_sm, 6 * actual.shared_bytes) == (6, 12 * 1024)


def test_44_the_warps_that_hide_a_latency_follow_from_the_instructions_between_loads():
    actual = launch_of(copy(256), device="G80").facts.hiding
    # One store for each load: the guide's 600 cycles, 2 instructions of 4 cycles each.
    assert (actual.latency.cycles, actual.instructions_between, actual.latency.issue_cycles) == (600, 2.0, 4)
    assert actual.warps_needed == 75


def test_45_three_blocks_of_256_threads_are_24_warps_on_a_g80():
    actual = launch_of(copy(256), target="sm_10").facts.occupancy.occupancy
    assert (actual.blocks_per_sm, actual.warps_per_sm) == (3, 24)


@pytest.mark.parametrize(("spec", "per_byte", "gigaflops"), [(naive_product, 0.25, 750), (tiled_product, 4, 12_000)])
def test_46_intensity_and_bound_of_the_naive_and_the_tiled_product_at_3_tb_per_s(spec, per_byte, gigaflops):
    facts = launch_of(spec(1024)).facts
    assert facts.flop_per_byte_read == per_byte
    assert bound(facts.flop_per_byte_read, device("H100").peak(), 3e12) == gigaflops * 1e9


def test_46_the_roof_over_what_is_asked_for_counts_the_writes_too():
    slow = replace(device("H100"), bandwidth=3e12)
    actual = launch_of(naive_product(1024), device=slow).facts.roofline.ceilings[0]
    assert actual.name == "asked"
    assert actual.is_memory_bound
    assert actual.flop_per_s == pytest.approx(750e9 / (1 + 1 / 2048))


def test_47_a_g80_feeds_21_6_gflops_of_the_naive_product_and_would_need_1386_gb_per_s():
    per_byte = launch_of(naive_product(512), device="G80").facts.flop_per_byte_read
    assert bound(per_byte, device("G80").peak(), device("G80").bandwidth) == pytest.approx(21.6e9)
    assert bandwidth_for(346.5e9, per_byte) == 1386e9


def test_48_a_16x16_tile_for_each_of_4096_blocks_loads_512_numbers_a_phase_for_4096_multiply_adds():
    facts = launch_of(tiled_product(1024)).facts
    phases = 4096 * (1024 // 16)
    assert facts.launch.blocks == 4096
    assert facts.traffic.read == phases * 512 * 4
    assert facts.work.all_flop == phases * 8192


@pytest.mark.parametrize(("condition", "mixed"), [("i % 2 == 1", 32), ("i // 32 >= 2", 0), ("i % 32 == 5", 32)])
def test_49_branches_on_parity_and_on_one_lane_part_every_warp_and_those_on_whole_warps_none(condition, mixed):
    launch = launch_of(
        spec_of(f"""
params: {{N: 1024}}
arrays:
  A: {{shape: [N], dtype: float32}}
  B: {{shape: [N], dtype: float32}}
  C: {{shape: [N], dtype: float32}}
compute: "C[i] = A[i] if {condition} else B[i]"
schedule: {{family: direct}}
""")
    )
    (branch,) = launch.facts.branches
    assert (branch.parting.warps, branch.parting.mixed_warps) == (32, mixed)


def test_50_the_guards_of_a_100_wide_product_in_16x16_tiles():
    launch = launch_of(tiled_product(100))
    actual = [(b.kind, b.parting.mixed_warps, b.parting.warps) for b in launch.facts.branches]
    assert actual == [("load", 350, 2744), ("load", 350, 2744), ("return", 50, 392)]


@pytest.mark.parametrize("tile", [4, 8, 16, 32])
def test_51_a_tile_divides_the_traffic_by_its_side(tile):
    tiled, naive = launch_of(tiled_product(256, tile)).facts, launch_of(naive_product(256)).facts
    assert tiled.traffic.reuse == tile
    assert tiled.traffic.untiled == naive.traffic.read == tile * tiled.traffic.read


@pytest.mark.parametrize("target", ["sm_10", "sm_13"])
def test_51_a_32x32_tile_cannot_be_launched_on_1_x(target):
    facts = launch_of(tiled_product(256, 32), target=target).facts
    assert not facts.occupancy.can_launch
    assert "warps" in facts.occupancy.occupancy.limited_by


def test_the_16x16_tile_on_a_g80_is_still_just_bound_by_memory():
    g80 = replace(device("G80"), peaks=(("float32", 346.5e9),))
    per_byte = launch_of(tiled_product(512), device=g80).facts.flop_per_byte_read
    assert bound(per_byte, g80.peak(), g80.bandwidth) == pytest.approx(345.6e9)


def test_the_ridge_is_peak_by_bandwidth():
    slow = replace(device("H100"), bandwidth=3e12)
    assert launch_of(copy(256), device=slow).facts.roofline.ridge == pytest.approx(22.3)


def test_tiles_in_dynamic_memory_follow_each_other_in_bytes_and_the_launch_asks_for_both():
    spec = spec_of("""
params: {N: 64}
arrays:
  A: {shape: [N, N], dtype: float32, memory: {space: shared, dynamic: true, pad: 1}}
  B: {shape: [N, N], dtype: float32, memory: {space: shared, dynamic: true}}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}, step: {k: 16}}
""")
    kernel = cugen.generate(spec)
    tiles = {a.access.array.name: a.access.array for a in launch_of(spec).accesses if a.space == "shared"}
    first, second = 16 * 17 * 4, 16 * 16 * 4
    assert [tiles[name].dynamic_offset for name in "AB"] == [0, first]
    assert "float (*Bs)[BN] = reinterpret_cast<float (*)[BN]>(As + BM);" in kernel.source
    assert launch_of(spec).facts.occupancy.shared_bytes == first + second


def test_registers_are_not_shared_memory_register_tiles_take_fewer_wavefronts_for_the_same_work():
    def wavefronts(thread: int) -> int:
        text = f"""
params: {{N: 128}}
arrays:
  A: {{shape: [N, N], dtype: float32, memory: {{space: shared, pad: 1}}}}
  B: {{shape: [N, N], dtype: float32, memory: shared}}
  C: {{shape: [N, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{block: {{m: 64, n: 64}}, thread: {{m: {thread}, n: {thread}}}, step: {{k: 16}}}}
"""
        launch = launch_of(spec_of(text))
        assert launch.facts.work.all_flop == 2 * 128**3
        return sum(a.cost for a in launch.accesses if a.space == "shared" and a.access.kind == "load")

    assert wavefronts(2) == 2 * wavefronts(4)
