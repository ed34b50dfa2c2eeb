"""The direct family: refused schedules and placements, thread mapping, and serial scans."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cugen.kernel import Kernel
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.nodes import For
from cugen.plan.request import Refusal
from cugen.plan.traversal.walking import walk_nodes

Reasons = Callable[[str, str], tuple[Refusal, ...]]
Generate = Callable[[str], Kernel]

COPY = (
    "arrays: {{x: {{shape: [{0}], dtype: float32}}, y: {{shape: [{0}], dtype: float32}}}}\ncompute: y[{1}] = x[{1}]\n"
)


def keys(refusals: tuple[Refusal, ...]) -> list[str]:
    return [refusal.key for refusal in refusals]


def test_a_plain_statement_is_accepted(reasons: Reasons) -> None:
    assert reasons("direct", COPY.format("8, 8", "i, j")) == ()


@pytest.mark.parametrize(
    ("schedule", "key"),
    [
        ("{thread: {i: 2}}", "schedule.thread"),
        ("{step: {i: 4}}", "schedule.step"),
        ("{vector: 4}", "schedule.vector"),
        ("{block: {i: 128}}", "schedule.block.i"),  # the slowest of three maps to z
    ],
)
def test_an_impossible_schedule_is_refused(reasons: Reasons, schedule: str, key: str) -> None:
    text = COPY.format("200, 8, 8", "i, j, k")
    assert keys(reasons("direct", f"{text}schedule: {schedule}\n")) == [key]


def test_threads_map_to_three_indices_at_most(reasons: Reasons) -> None:
    text = COPY.format("4, 4, 4, 4", "i, j, k, l")
    (refusal,) = reasons("direct", f"{text}schedule: {{block: {{i: 2}}}}\n")
    assert refusal == Refusal("has threads along l, k, j only, not along i", "schedule.block.i")


def test_a_reduction_index_has_no_threads(reasons: Reasons) -> None:
    text = """
arrays: {x: {shape: [8, 8], dtype: float32}, y: {shape: [8], dtype: float32}}
compute: y[i] = sum(x[i, k], k)
schedule: {block: {k: 8}}
"""
    assert keys(reasons("direct", text)) == ["schedule.block.k"]


@pytest.mark.parametrize(
    ("array", "memory"),
    [
        ("t", "shared"),  # a statement writes it
        ("x", "{space: shared, swizzle: xor}"),
        ("x", "{space: shared, stages: 2}"),
        ("x", "register"),  # more elements than a thread has registers for
    ],
)
def test_an_impossible_placement_is_refused(reasons: Reasons, array: str, memory: str) -> None:
    arrays = dict.fromkeys("xty", "{shape: [100], dtype: float32")
    arrays["t"] += ", memory: scratch" if array != "t" else ""
    arrays[array] += f", memory: {memory}"
    declared = ", ".join(f"{name}: {text}}}" for name, text in arrays.items())
    text = f"arrays: {{{declared}}}\ncompute: |\n  t[i] = x[99 - i % 50]\n  y[i] = t[i] + 1\n"
    assert keys(reasons("direct", text)) == [f"arrays.{array}.memory"]


def test_a_staged_array_has_a_fixed_shape_and_fits(reasons: Reasons) -> None:
    text = """
params: {{N: {0}}}
arrays: {{x: {{shape: [N], dtype: float64, memory: shared}}, y: {{shape: [N], dtype: float64}}}}
compute: y[i] = x[N - 1 - i]
schedule: {{family: direct}}
"""
    assert reasons("direct", text.format(6144)) == ()
    assert keys(reasons("direct", text.format(6145))) == ["arrays.x.memory"]
    assert keys(reasons("direct", text.format("dynamic"))) == ["arrays.x.memory"]


def test_arrays_are_copied_whole_only_on_request(reasons: Reasons) -> None:
    text = """
arrays: {x: {shape: [100], dtype: float32, memory: shared}, y: {shape: [100], dtype: float32}}
compute: y[i] = x[99 - i]
"""
    (refusal,) = reasons("direct", text)
    assert refusal.key == "arrays.x.memory"
    assert "would be copied whole by each block: `family: direct` does so" in refusal.reason
    assert reasons("direct", f"{text}schedule: {{family: direct}}\n") == ()


def scan(text: str) -> str:
    return f"""
arrays: {{x: {{shape: [40, 50], dtype: float32}}, y: {{shape: [40, 50], dtype: float32}}}}
{text}
"""


def loop_bounds(kernel: PlannedKernel) -> list[tuple[str, str]]:
    loops = [node.loop for node in walk_nodes(kernel.body) if isinstance(node, For)]
    return [(str(loop.start), str(loop.stop)) for loop in loops]


def test_a_scan_has_one_thread_per_row(planned: Callable[[str], PlannedKernel]) -> None:
    kernel = planned(scan("compute: y[i, j] = cumsum(x[i, j], j)\nschedule: {family: direct}"))
    assert (tuple(map(int, kernel.grid)), kernel.block) == ((1, 1, 1), (256, 1, 1))
    assert loop_bounds(kernel) == [("0", "50")]


def test_a_block_along_the_scanned_index_has_one_thread_per_element(
    planned: Callable[[str], PlannedKernel],
) -> None:
    kernel = planned(scan("compute: y[i, j] = cumsum(x[i, j], j)\nschedule: {block: {i: 2, j: 32}}"))
    assert kernel.block == (32, 2, 1)
    assert loop_bounds(kernel) == [("0", "j + 1")]


def test_scans_in_two_directions_are_two_kernels(made: Generate) -> None:
    kernel = made("""
arrays: {x: {shape: [40], dtype: float32}, y: {shape: [40], dtype: float32}, z: {shape: [40], dtype: float32}}
compute: |
  y[i] = cumsum(x[i], i)
  z[i] = cumsum(x[i], i, reverse=true)
schedule: {family: direct}
""")
    assert [loop_bounds(k) for k in kernel.plan.kernels] == [[("0", "40")], [("0", "40")]]
    assert "for (int i = 40 - 1; i >= 0; --i)" in kernel.source or "for (int i = 39; i >= 0; --i)" in kernel.source


def test_a_separate_sum_is_not_fused_with_a_scan(made: Generate) -> None:
    kernel = made("""
arrays: {x: {shape: [40], dtype: float32}, y: {shape: [40], dtype: float32}, z: {shape: [40], dtype: float32}}
compute: |
  y[i] = cumsum(x[i], i)
  z[i] = sum(x[k] * i, k)
""")
    assert len(kernel.plan.kernels) == 2


def test_only_partial_blocks_are_guarded(made: Generate) -> None:
    assert "return;" not in made(COPY.format("64, 96", "i, j") + "schedule: {family: direct}\n").source.split("#if")[0]
    assert "if (j >= 97)" in made(COPY.format("64, 97", "i, j") + "schedule: {family: direct}\n").source
