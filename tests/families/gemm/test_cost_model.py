"""The GEMM cost model against measured kernels: `tests/data/gemm_h200.csv` and `gemm_drawn_*.csv`."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.families.gemm.config import Addressing, Prefetch, Reduction, Stores, TileConfig
from cugen.families.gemm.problem import Problem, registers_per_thread, shared_bytes
from cugen.families.gemm.selection import cost_model
from cugen.families.gemm.selection.candidate_tiles import stage_counts, tile_configs
from cugen.families.gemm.selection.cost_model import H200, predict, resident_blocks_per_sm
from cugen.families.gemm.selection.heuristic import pick
from cugen.families.gemm.tile_layout import OperandTile
from cugen.families.registry import families
from cugen.machine import device, known_targets, target
from cugen.machine.mma import INSTRUCTIONS, float64_instruction
from cugen.machine.occupancy import occupancy

SM_90 = target("sm_90")
A, B = Problem(1, 1, 1).operands
families()

# Columns of the table, in the order of the fields of Problem and TileConfig, or with the field's name.
PROBLEM = ("rows", "columns", "depth")
TILE = ("block_rows", "block_columns", "thread_rows", "thread_columns", "step", "stages", "slices", "lanes")
KINDS = {"prefetch": Prefetch, "addressing": Addressing, "reduction": Reduction, "stores": Stores}
FIELDS = (
    "block_m",
    "block_n",
    "thread_m",
    "thread_n",
    "block_k",
    "stages",
    "sliced_k",
    "lanes_m",
    "split_k",
    "stream_k",
)
DATA = Path(__file__).parents[2] / "data"
SPLIT = {"split": "split_k", "stream": "stream_k", "raster": "raster"}


def measured() -> dict[Problem, list[tuple[float, TileConfig]]]:
    """(seconds, config) of every config that was timed, by problem."""
    path = Path(__file__).parents[3] / H200.data
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    timed: dict[Problem, list[tuple[float, TileConfig]]] = defaultdict(list)
    for row in csv.DictReader(lines):
        m, n, k = (int(row[name]) for name in PROBLEM)
        problem = Problem(m, n, k, operands=(A, replace(B, copy_width=1 if n % 4 else 4)))
        config = TileConfig(
            *(int(row[name]) for name in TILE),
            **{field: int(row[name]) for name, field in SPLIT.items()},
            reduction=row["join"] or "workspace",
        )
        timed[problem].append((float(row["us"]) * 1e-6, config))
    return timed


def fastest(timed: list[tuple[float, TileConfig]]) -> float:
    return min(seconds for seconds, _ in timed)


def predicted(problem: Problem, config: TileConfig) -> float:
    prediction = predict(problem, config, SM_90)
    assert prediction is not None
    return prediction.seconds


def test_predictions_are_within_10_percent_of_the_measurements():
    assert error(measured()) < 0.1


def drawn(file: str, seed: int) -> dict[Problem, list[tuple[float, TileConfig]]]:
    """(seconds, config) of every config of the shapes of a seed, by problem; without clusters of 3 and 6 blocks, whose
    time depends on which multiprocessors of a die are enabled, and which the heuristic takes last."""
    lines = [line for line in (DATA / file).read_text().splitlines() if not line.startswith("#")]
    timed: dict[Problem, list[tuple[float, TileConfig]]] = defaultdict(list)
    for row in csv.DictReader(lines):
        m, n, k = (int(row[name]) for name in "mnk")
        width = math.gcd(n, 4)
        b = replace(B, copy_width=width)
        if row.get("layout") == "nt":
            b = replace(B, is_k_major=True, copy_width=math.gcd(k, 4))
        problem = Problem(m, n, k, operands=(A, b), store_width=width)
        kinds = {name: kind(row[name]) for name, kind in KINDS.items() if name in row}
        config = TileConfig(**{name: int(row[name]) for name in FIELDS}, **kinds)
        if int(row["seed"]) == seed and not (config.uses_cluster and config.split_k in (3, 6)):
            timed[problem].append((float(row["us"]) * 1e-6, config))
    return timed


@pytest.fixture
def on_h100(monkeypatch):
    """Predictions for the device that the drawn shapes were measured on."""
    cost_model.predict.cache_clear()
    monkeypatch.setattr(cost_model, "device_of", lambda _: device("H100"))
    yield
    cost_model.predict.cache_clear()


def error(timed: dict[Problem, list[tuple[float, TileConfig]]]) -> float:
    """The root mean square of the predictions' errors, of configs that are not far slower than the fastest."""
    ratios = [
        math.log(seconds / predicted(problem, config))
        for problem, configs in timed.items()
        for seconds, config in configs
        if seconds < 1.5 * fastest(configs)
    ]
    return math.sqrt(sum(ratio**2 for ratio in ratios) / len(ratios))


def regret(timed: dict[Problem, list[tuple[float, TileConfig]]]) -> float:
    """The time of the picks over that of the fastest, in geometric mean."""
    regrets = [picked(problem, configs) / fastest(configs) for problem, configs in timed.items()]
    return math.prod(regrets) ** (1 / len(regrets))


@pytest.mark.usefixtures("on_h100")
@pytest.mark.parametrize("seed", [11, pytest.param(12, id="not fitted to")])
def test_predictions_and_picks_of_drawn_shapes_on_another_device(seed):
    timed = drawn("gemm_drawn_h100.csv", seed)
    assert len(timed) == 36
    assert error(timed) < 0.1
    assert regret(timed) < 1.05


@pytest.mark.parametrize(("seed", "shapes"), [(101, 48), pytest.param(0, 3, id="short k")])
def test_predictions_and_picks_of_drawn_shapes(seed, shapes):
    timed = drawn("gemm_drawn_h200.csv", seed)
    assert len(timed) == shapes
    assert error(timed) < 0.1
    assert regret(timed) < 1.05


def tile(config: TileConfig) -> tuple[int, ...]:
    return config.block_m, config.block_n, config.thread_m, config.thread_n, config.block_k, config.sliced_k


CANDIDATES = [tile(config) for config in tile_configs(None)]


def picked(problem: Problem, timed: list[tuple[float, TileConfig]]) -> float:
    """The measured seconds of the config that the heuristic picks among those that were timed."""

    def preference(config: TileConfig) -> tuple[int, int]:
        candidate = CANDIDATES.index(tile(config)) if tile(config) in CANDIDATES else len(CANDIDATES)
        return candidate, stage_counts(config).index(config.stages)

    preferred = sorted(timed, key=lambda pair: preference(pair[1]))
    choice = pick([(predicted(problem, config), config) for _, config in preferred])
    return next(seconds for seconds, config in timed if config == choice)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("problem", measured(), ids=lambda p: f"{p.m}x{p.n}x{p.k}")
def test_the_pick_among_the_measured_configs_is_within_5_percent_of_the_fastest(problem):
    timed = measured()[problem]
    assert picked(problem, timed) <= 1.05 * fastest(timed)


def test_all_picks_together_are_within_a_percent_of_the_fastest():
    assert regret(measured()) < 1.01


def test_a_block_that_fits_no_multiprocessor_has_no_prediction():
    assert predict(Problem(4096, 4096, 4096), TileConfig(256, 256, 16, 16, 64, 5), SM_90) is None


FLOAT64 = Problem(
    4096,
    4096,
    4096,
    operands=(replace(A, element_bytes=8), replace(B, element_bytes=8, copy_width=2)),
    output_bytes=8,
    accumulator_bytes=8,
    fma_cost=2.0,
)


HALVES = Problem(
    4096,
    4096,
    4096,
    operands=(
        OperandTile(is_along_m=True, is_k_major=True, element_bytes=2, copy_width=8),
        OperandTile(is_along_m=False, is_k_major=False, element_bytes=2, copy_width=8),
    ),
)


@pytest.mark.parametrize(
    ("problem", "instruction"),
    [
        (Problem(4096, 4096, 4096), None),
        (FLOAT64, float64_instruction(4)),
        (HALVES, INSTRUCTIONS["float16", "float16"]),
    ],
    ids=["cuda", "float64", "float16"],
)
def test_resident_blocks_are_those_of_the_occupancy_analysis(problem, instruction):
    candidates = [replace(tile, stages=count) for tile in tile_configs(instruction) for count in stage_counts(tile)]
    for machine in map(target, known_targets()):
        for config in candidates:
            registers = min(registers_per_thread(problem, config), machine.registers_per_thread)
            expected = occupancy(machine, config.threads, registers, shared_bytes(problem, config))
            assert resident_blocks_per_sm(problem, config, machine) == expected.blocks_per_sm, (machine.name, config)


@pytest.mark.parametrize(
    ("arch", "sizes", "blocks"),
    [
        pytest.param("sm_90", (32, 64, 4, 8, 16, 2), 10, id="registers of four sub-partitions"),
        pytest.param("sm_53", (128, 256, 16, 8, 8, 2), 0, id="registers of a block"),
        pytest.param("sm_75", (128, 256, 16, 8, 32, 3), 0, id="shared memory of a block"),
    ],
)
def test_resident_blocks_keep_the_limits_of_the_hardware(arch, sizes, blocks):
    assert resident_blocks_per_sm(Problem(4096, 4096, 4096), TileConfig(*sizes), target(arch)) == blocks


def test_float64_takes_longer_by_the_ratio_of_the_published_rates():
    floats = predict(Problem(4096, 4096, 4096), TileConfig(128, 128, 8, 8, 8), SM_90)
    doubles = predict(
        replace(Problem(4096, 4096, 4096), accumulator_bytes=8, fma_cost=2.0), TileConfig(128, 128, 8, 8, 8), SM_90
    )
    assert floats is not None
    assert doubles is not None
    assert 1.7 < doubles.seconds / floats.seconds < 2.2


SMALL_UNALIGNED = """
target: sm_90
params: {{M: 20, N: {n}, K: {k}}}
arrays:
  A: {{shape: [M, K], dtype: bfloat16}}
  B: {{shape: [K, N], dtype: bfloat16}}
  C: {{shape: [M, N], dtype: bfloat16}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("n", "k", "is_split"),
    [
        pytest.param(89, 570, True, id="odd rows of B, and more k-tiles than stages"),
        pytest.param(89, 192, False, id="as many k-tiles as the prologue copies"),
        pytest.param(90, 570, True, id="rows of whole words, which are copied asynchronously"),
    ],
)
def test_few_blocks_split_a_long_k_in_clusters(planned, n, k, is_split):
    """20 x 89 x 570 takes 15.2 us in one block for each tile, and 9.5 in clusters of 8 (on an H100)."""
    kernel = planned(SMALL_UNALIGNED.format(n=n, k=k))
    assert kernel.family == "gemm"
    assert kernel.is_clustered == is_split
