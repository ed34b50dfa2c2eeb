"""The facts of a launch: counted where they can be, said to be unknown or bounds where not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cugen
from cugen.analysis import occupancy
from cugen.analysis.launches.facts import facts
from cugen.machine import UnknownDevice
from cugen.schedule.splitting.context import plan_context
from cugen.spec.load import load_text
from tests.drawn import examples


def spec_of(text: str):
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    return spec


def facts_of(text: str, **options):
    (launch,) = cugen.analyze(spec_of(text), **options).kernels
    return launch.facts


def elementwise(compute: str, n: int = 1000, dtype: str = "float32", schedule: str = "{family: direct}") -> str:
    return f"""
params: {{N: {n}}}
arrays:
  A: {{shape: [N], dtype: {dtype}}}
  C: {{shape: [N], dtype: {dtype}}}
compute: "C[i] = {compute}"
schedule: {schedule}
"""


GATHER = """
params: {V: 50, N: 200}
arrays:
  table: {shape: [V], dtype: float32}
  ids: {shape: [N], dtype: int32}
  C: {shape: [N], dtype: float32}
compute: C[i] = table[ids[i]] * 2
schedule: {family: direct}
"""

DYNAMIC = """
params: {N: dynamic}
arrays:
  A: {shape: [N], dtype: float32}
  C: {shape: [N], dtype: float32}
compute: C[i] = A[i] + 1
schedule: {family: direct}
"""


@settings(max_examples=examples(10), deadline=None, derandomize=True)
@given(st.integers(1, 5000), st.integers(1, 512))
def test_a_launch_is_cut_into_whole_warps_and_its_waves_hold_all_blocks(n, threads):
    facts = facts_of(elementwise("A[i]", n, schedule=f"{{family: direct, block: {{i: {threads}}}}}"))
    launch, waves = facts.launch, facts.waves
    assert 32 * launch.warps_per_block == launch.threads + launch.idle_lanes
    assert 0 <= launch.idle_lanes < 32
    assert launch.blocks == -(-n // threads)
    assert waves.full_waves * waves.at_once + waves.tail_blocks == launch.blocks
    assert 0 < waves.utilisation <= 1


def test_a_grid_of_two_waves_and_a_block_has_that_block_as_its_tail():
    facts = facts_of(elementwise("A[i]", 256 * (2 * 1056 + 1)))
    assert (facts.device, facts.is_default) == ("H200", True)
    assert (facts.waves.at_once, facts.waves.full_waves, facts.waves.tail_blocks) == (1056, 2, 1)
    assert facts.waves.utilisation == pytest.approx(2113 / (3 * 1056))


def test_a_grid_beyond_the_limits_of_an_old_target_is_said_to_be():
    text = elementwise("A[i]", 256 * 70_000)
    assert facts_of(text, target="sm_90").launch.is_within_limits
    assert not facts_of(text, target="sm_20").launch.is_within_limits


def test_grids_of_1_x_have_two_dimensions():
    assert facts_of(elementwise("A[i]"), target="sm_13").launch.grid_limits[2] == 1


@pytest.mark.parametrize(
    ("compute", "flop", "functions"),
    [
        ("A[i]", 0, 0),
        ("-abs(A[i])", 0, 0),
        ("A[i] + 1", 1, 0),
        ("A[i] * 3 + 1", 2, 0),
        ("fma(A[i], 3, 1)", 2, 0),
        ("A[i] / 3 - 1", 2, 0),
        ("sqrt(A[i]) + exp(A[i])", 3, 2),
        ("maximum(A[i], 0)", 1, 0),
    ],
)
def test_operations_are_counted_for_each_element_a_multiply_add_as_two(compute, flop, functions):
    actual = facts_of(elementwise(compute)).work
    assert (actual.all_flop, actual.functions, actual.integer, actual.exact) == (1000 * flop, 1000 * functions, 0, True)


def test_operations_on_integers_are_not_floating_point_and_double_precision_has_its_own_count():
    assert facts_of(elementwise("A[i] * 3 + 1", dtype="int32")).work.integer == 2000
    assert facts_of(elementwise("A[i] * 3 + 1", dtype="float64")).work.flop == (("float64", 2000),)


def test_a_choice_by_data_makes_work_an_upper_bound_only_if_its_branches_compute():
    plain = facts_of(elementwise("A[i] if A[i] > 0 else 0", schedule="{family: map}"))
    assert (plain.work.all_flop, plain.work.exact, plain.choices) == (0, True, 1)
    busy = facts_of(elementwise("A[i] * 2 if A[i] > 0 else A[i] + 1", schedule="{family: map}"))
    assert (busy.work.all_flop, busy.work.exact) == (2000, False)


def test_a_gather_leaves_its_sectors_unknown_and_counts_the_rest():
    facts = facts_of(GATHER)
    assert facts.traffic.read == 200 * (4 + 4)
    assert (facts.traffic.sectors_read, facts.traffic.moved, facts.traffic.efficiency) == (None, None, None)
    assert facts.traffic.sectors_written == 800
    assert facts.traffic.exact
    assert [ceiling.name for ceiling in facts.roofline.ceilings] == ["asked", "compulsory"]


def test_loads_that_wait_for_an_address_are_not_in_flight_with_it():
    assert facts_of(GATHER).hiding.bytes_per_thread == 4


def test_what_a_stencil_reads_again_and_again_is_compulsory_once():
    actual = facts_of("""
params: {N: 1000}
arrays:
  A: {shape: [N], dtype: float32, boundary: zero}
  C: {shape: [N], dtype: float32}
compute: C[i] = A[i - 1] + A[i] + A[i + 1]
schedule: {family: direct}
""").traffic
    assert (actual.read, actual.written) == (4 * (999 + 1000 + 999), 4000)
    assert actual.compulsory == 8000
    assert actual.sectors_read >= actual.compulsory // 2


def test_a_strided_read_moves_more_than_it_asks_for():
    actual = facts_of("""
params: {N: 1024}
arrays:
  A: {shape: [N, 8], dtype: float32}
  C: {shape: [N], dtype: float32}
compute: C[i] = A[i, 0]
schedule: {family: direct}
""").traffic
    assert (actual.read, actual.sectors_read) == (4096, 32 * 1024)
    assert actual.compulsory == 8192
    assert actual.efficiency == pytest.approx(8192 / (4096 + 32 * 1024))


def test_register_tiles_divide_the_traffic_by_more_than_shared_ones():
    text = """
params: {{N: 128}}
arrays:
  A: {{shape: [N, N], dtype: float16, memory: shared}}
  B: {{shape: [N, N], dtype: float16, memory: shared}}
  C: {{shape: [N, N], dtype: float16}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{block: {{m: 32, n: 32}}, thread: {{m: {0}, n: {0}}}, step: {{k: 16}}}}
"""
    for thread in (1, 2, 4):
        actual = facts_of(text.format(thread)).traffic
        assert actual.untiled == 2 * 128**3 * 2
        assert actual.reuse == 32


def test_a_gemm_by_wgmma_counts_its_boxes_and_runs_on_tensor_cores():
    found = facts_of("""
target: sm_90a
params: {M: 512, N: 1008, K: 768}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [N, K], dtype: bfloat16}
  C: {shape: [M, N], dtype: bfloat16}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
schedule: {family: wgmma, block: {m: 128, n: 256}, split_k: 1}
""")
    assert found.work.flop == (("tensor_bfloat16", 2 * 512 * 1024 * 768),)
    assert found.work.exact
    assert found.traffic.read == 2 * 768 * (4 * 512 + 4 * 1008)  # of each tile its rows of A and B inside the arrays
    assert found.traffic.written == found.traffic.sectors_written == 2 * 512 * 1008
    assert found.traffic.compulsory == 2 * (512 * 768 + 1008 * 768 + 512 * 1008)
    assert found.traffic.untiled == 2 * 2 * 512 * 1024 * 768
    assert found.roofline.units == ("tensor_bfloat16",)
    assert found.occupancy.occupancy.blocks_per_sm == 1
    assert found.hiding is None
    assert found.copies.bytes_in_flight == 4 * (128 + 256) * 128  # stages of rows of 128 bytes


def test_without_registers_other_resources_limit_and_with_them_the_next_step_is_given():
    text = elementwise("A[i]")
    assert facts_of(text).occupancy.registers is None
    assert "registers" not in facts_of(text).occupancy.occupancy.limits

    class Compiled:
        registers, spill_stores, spill_loads, stack_bytes = 48, 8, 4, 16

    facts = facts_of(text, resources={"k": Compiled()})
    assert facts.occupancy.occupancy == occupancy("sm_90", 256, 48)
    assert facts.occupancy.next_step.registers == 40
    assert (facts.compiler.registers, facts.compiler.spill_stores, facts.compiler.stack_bytes) == (48, 8, 16)


def test_a_param_without_a_value_leaves_open_what_depends_on_it():
    facts = facts_of(DYNAMIC)
    assert facts.unknown == "N has no value"
    assert (facts.launch.grid, facts.waves, facts.work, facts.traffic, facts.roofline) == (None,) * 5
    assert facts.launch.threads == 256
    known = facts_of(DYNAMIC, params={"N": 1000})
    assert (known.unknown, known.launch.blocks, known.work.all_flop) == ("", 4, 1000)


def test_facts_of_a_launch_need_no_report_at_hand():
    spec = spec_of(elementwise("A[i] + 1"))
    (launch,) = cugen.generate(spec).plan.kernels
    actual = facts(launch, plan_context(spec), "sm_90", {"N": 1000})
    assert actual == cugen.analyze(spec).kernels[0].facts


def test_a_device_of_another_target_is_refused():
    with pytest.raises(ValueError, match="A100 is of sm_80, not of sm_90"):
        facts_of(elementwise("A[i]"), target="sm_90", device="A100")
    with pytest.raises(UnknownDevice):
        facts_of(elementwise("A[i]"), device="no such")
    assert facts_of(elementwise("A[i]"), device="A100").target == "sm_80"


def test_a_device_without_a_rate_for_the_arithmetic_has_no_roofline():
    facts = facts_of(elementwise("A[i] + 1", dtype="float64"), device="G80")
    assert facts.roofline is None
    assert facts.work.all_flop == 1000


def constant_table(value: str, count: int) -> str:
    return f"""
arrays:
  t: {{shape: [{count}], dtype: float32, memory: constant}}
  y: {{shape: [4096], dtype: float32}}
compute: y[i] = {value}
schedule: {{family: direct}}
"""


@pytest.mark.parametrize(
    ("value", "count", "bytes_once"),
    [("sum(t[k], k)", 2000, 8000), ("t[5] + t[9]", 2000, 20), ("t[i] * 2", 4096, 16384), ("exp(i)", 0, 0)],
)
def test_constants_that_are_read_are_compulsory_once(value, count, bytes_once):
    text = (
        constant_table(value, count)
        if count
        else "arrays:\n  y: {shape: [4096], dtype: float32}\ncompute: y[i] = exp(i)"
    )
    actual = facts_of(text)
    assert (actual.constant.bytes_read, actual.traffic.constant) == (bytes_once, bytes_once)
    assert actual.traffic.compulsory == 4 * 4096 + bytes_once
    assert actual.traffic.read == 0
    for ceiling in actual.roofline.ceilings:
        assert ceiling.memory_bytes == 4 * 4096 + bytes_once


def test_the_intensity_of_reads_counts_constants_and_is_none_without_reads():
    actual = facts_of(constant_table("sum(t[k], k)", 2000))
    assert actual.flop_per_byte_read == actual.work.all_flop / 8000
    assert facts_of("arrays:\n  y: {shape: [64], dtype: float32}\ncompute: y[i] = exp(i)").flop_per_byte_read is None


def test_scalars_in_constant_memory_count_against_its_budget():
    actual = facts_of("""
params: {N: 100}
scalars: {a: {dtype: float64, memory: constant}}
arrays:
  A: {shape: [N], dtype: float64}
  C: {shape: [N], dtype: float64}
compute: C[i] = A[i] * a
schedule: {family: direct}
""").constant
    assert (actual.bytes_used, actual.budget, actual.loads) == (8, 64 * 1024, 0)


def test_more_threads_in_flight_draw_more_of_the_bandwidth():
    few = facts_of(elementwise("A[i]", schedule="{family: direct, block: {i: 32}}")).hiding
    assert few.bytes_in_flight == 4 * 32 * 32
    assert few.bandwidth_share == pytest.approx(few.bytes_in_flight / few.bytes_needed)
    assert facts_of(elementwise("A[i]")).hiding.bytes_in_flight == 4 * 2048


def test_what_is_below_a_branch_is_counted_once():
    text = """
params: {N: %s}
arrays:
  x: {shape: [N], dtype: float32}
  c: {shape: [6], dtype: float32, memory: constant}
  y: {shape: [N], dtype: float32}
compute: y[i] = ((((c[5] * x[i] + c[4]) * x[i] + c[3]) * x[i] + c[2]) * x[i] + c[1]) * x[i] + c[0]
"""
    branching, straight = (facts_of(text % size).hiding.instructions_between for size in (50_001, 50_176))
    assert branching == pytest.approx(straight, rel=0.1)
