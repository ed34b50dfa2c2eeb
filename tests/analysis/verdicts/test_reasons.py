"""Every number of a reason follows from the walk over the launch; claims are short, texts are those of the source."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis import warp_request
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.machine import target as known_target
from cugen.spec.load import load_all, load_text
from tests.drawn import examples

SPECS = sorted((Path(__file__).parents[3] / "specs").glob("*.yaml"))
FIXED = [path for path in SPECS if not re.search("dynamic|range", path.read_text().split("arrays:")[0])]


def product_spec(a: str, b: str, extra: str = "", dtype: str = "float32", size: str = "M: 20, K: 18, N: 33") -> str:
    return f"""
cugen: 1
kernel: product
params: {{{size}}}
arrays:
  A: {{shape: [M, K], dtype: {dtype}, memory: {a}}}
  B: {{shape: [N, K], dtype: {dtype}, memory: {b}}}
  C: {{shape: [M, N], dtype: {dtype}}}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
schedule: {{block: {{m: 16, n: 16}}, step: {{k: 16}}{extra}}}
"""


def transpose_spec(memory: str, dtype: str = "float32", size: str = "M: 20, N: 37") -> str:
    return f"""
cugen: 1
kernel: turned
params: {{{size}}}
arrays:
  A: {{shape: [M, N], dtype: {dtype}, memory: {memory}}}
  B: {{shape: [N, M], dtype: {dtype}}}
compute: B[n, m] = A[m, n]
"""


COPY = """
cugen: 1
kernel: copy
params: {M: 11, N: 37}
arrays:
  A: {shape: [M, N], dtype: float32, boundary: clamp}
  t: {shape: [N], dtype: float32, memory: constant}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = A[m - 1, n + 1] * t[n]
"""

TEXTS = {
    "padded A": product_spec("{space: shared, pad: 1}", "shared"),
    "swizzled B": product_spec("shared", "{space: shared, swizzle: xor}"),
    "thread tile": product_spec("shared", "{space: shared, pad: 4}", ", thread: {m: 2, n: 4}"),
    "float64 product": product_spec("{space: shared, pad: 1}", "shared", dtype="float64"),
    "float16 product": product_spec("{space: shared, pad: 1}", "shared", dtype="float16"),
    "pad of 0": transpose_spec("{space: shared, pad: 0}"),
    "pad of 1": transpose_spec("{space: shared, pad: 1}"),
    "swizzle": transpose_spec("{space: shared, swizzle: xor}"),
    "no tile": transpose_spec("global"),
    "int8 transposition": transpose_spec("{space: shared, pad: 2}", "int8"),
    "copy": COPY,
}
TARGETS = ["sm_13", "sm_20", "sm_35", "sm_61"]
CASES = [
    pytest.param(text, target, id=f"{name}-{target}")
    for n, (name, text) in enumerate(TEXTS.items())
    for target in (TARGETS[n % 4], TARGETS[(n + 2) % 4], "sm_90")
]


@cache
def reports(walk, text: str, target: str):
    """Each access's report with the warps that run it."""
    return tuple(_reports(walk, text, target))


def _reports(walk, text: str, target: str):
    for spec in load_text(text):
        kernel = generate(spec)
        params = {p.name: p.value for p in spec.params}
        for launch in kernel.plan.kernels:
            walked = walk(launch, params, target, record=True).warps
            for actual in analyze_kernel(launch, target, params).accesses:
                yield actual, walked.get(id(actual.access), [])


def calculated(formula: str, names) -> np.ndarray:
    """The value of a printed formula in every lane."""
    for builtin in re.findall(r"\w+Idx\.\w", formula):
        formula = formula.replace(builtin, builtin.replace(".", "_"))
    formula = formula.replace("//", "/").replace("/", "//").replace(" mod ", " % ")
    functions = {"min": np.minimum, "max": np.maximum, "floor_div": np.floor_divide, "floor_mod": np.mod}
    return eval(formula, {"__builtins__": {}}, {**names, **functions}) + np.zeros(len(names["threadIdx_x"]), np.int64)


def active_lanes(warp) -> list[int]:
    return [lane for lane, address in enumerate(warp.addresses) if address is not None]


def words(warp, width: int) -> set[int]:
    return {a // 4 + n for a in warp.addresses if a is not None for n in range(max(1, width // 4))}


def width_of(report) -> int:
    return report.access.array.dtype.bytes * report.access.width


@pytest.mark.sampled(22)
@pytest.mark.parametrize(("text", "target"), CASES)
def test_the_formulas_of_a_reason_give_the_address_and_the_bank_of_every_lane(walk, text, target):
    banks = known_target(target).banks
    for actual, warps in reports(walk, text, target):
        formulas = re.search(r"(?:bank|address) = ([^;]*);", actual.reason)
        assert formulas, actual.reason
        for formula in formulas[1].split(" = "):
            for warp in warps[::7]:
                on = active_lanes(warp)
                values = calculated(formula, warp.names)[on]
                addresses = np.array([warp.addresses[lane] for lane in on])
                expected = addresses // 4 % banks if actual.space == "shared" else addresses
                assert values.tolist() == expected.tolist(), (actual.text, formula)


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("text", "target"), CASES)
def test_two_lanes_of_a_reported_bank_conflict_conflict(walk, text, target):
    row = known_target(target)
    for actual, warps in reports(walk, text, target):
        said = re.search(
            r"lanes (\d+) and (\d+) (?:read|write) words (\d+) and (\d+), both in bank (\d+)", actual.reason
        )
        if actual.space != "shared":
            assert not said
            continue
        assert (actual.verdict == "costly") <= bool(said or " per pass: " in actual.reason), actual.reason
        if not said:
            continue
        a, b, first, second, bank = map(int, said.groups())
        assert first % row.banks == second % row.banks == bank
        width = width_of(actual)
        assert any(is_collision(warp, a, b, first - second, bank, width, target) for warp in warps)


def is_collision(warp, a: int, b: int, distance: int, bank: int, width: int, target: str) -> bool:
    """Whether lanes a and b of the warp access words at that distance in the bank, and are serialised."""
    if warp.addresses[a] is None or warp.addresses[b] is None:
        return False
    pairs = [
        (warp.addresses[a] // 4 + i, warp.addresses[b] // 4 + j)
        for i in range(max(1, width // 4))
        for j in range(max(1, width // 4))
    ]
    if (distance, bank) not in [(x - y, x % known_target(target).banks) for x, y in pairs]:
        return False
    both = [warp.addresses[lane] if lane in (a, b) else None for lane in range(32)]
    pair = warp_request("shared", "load", width, both, target)
    return pair.wavefronts > pair.ideal_wavefronts or width > 4


@pytest.mark.sampled(28)
@pytest.mark.parametrize(("text", "target"), CASES)
def test_an_ideal_shared_access_reads_as_many_words_in_as_many_banks_as_it_says(walk, text, target):
    for actual, warps in reports(walk, text, target):
        said = re.search(
            r"(\d+) lanes? (?:reads?|writes?) (one word|(\d+) words in (\d+) banks?).*?, (\d+) wave", actual.reason
        )
        if not said:
            assert actual.space != "shared" or re.search("which serves | per pass: ", actual.reason)
            continue
        lanes, count, banks, wavefronts = int(said[1]), int(said[3] or 1), int(said[4] or 1), int(said[5])
        counted = Counter(
            (
                len(active_lanes(w)),
                len(t := words(w, width_of(actual))),
                len({x % known_target(target).banks for x in t}),
            )
            for w in warps
        )
        share = re.search(r"in ([\d,]+) of ([\d,]+) warps, the others", actual.reason)
        warps_said = (int(share[1].replace(",", "")), int(share[2].replace(",", ""))) if share else (len(warps),) * 2
        assert (counted[lanes, count, banks], len(warps)) == warps_said, actual.reason
        assert wavefronts in {w.cost.wavefronts for w in warps}


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("text", "target"), CASES)
def test_lane_strides_and_the_share_of_used_bytes_are_right(walk, text, target):
    for actual, warps in reports(walk, text, target):
        if actual.space != "global":
            continue
        for name, step in re.findall(r"([\w.]+) and \1 \+ 1 are (\d+) bytes apart", actual.reason):
            warp = max(warps, key=lambda w: len(active_lanes(w)))
            values = warp.names[name.replace(".", "_")]
            others = {
                tuple(v[lane] for n, v in warp.names.items() if n.startswith("threadIdx")): lane
                for lane in active_lanes(warp)
            }
            assert len(others) == len(active_lanes(warp))
            pairs = adjacent_pairs(warp, values)
            assert pairs, name
            assert {abs(b - a) for a, b in pairs} == {int(step)}
        used = sum(len(set(w.addresses) - {None}) * width_of(actual) for w in warps)
        moved = sum(w.cost.sectors * 32 for w in warps)
        assert f"{100 * used / moved:.3g} % of the bytes" in actual.reason


def adjacent_pairs(warp, values) -> list[tuple[int, int]]:
    """Addresses of lane pairs whose value differs by one and whose other thread indices are equal."""
    on = active_lanes(warp)
    axes = [n for n in warp.names if n.startswith("threadIdx")]
    axis = next(n for n in axes if len({int(v - c) for v, c in zip(values[on], warp.names[n][on], strict=True)}) == 1)
    others = [n for n in axes if n != axis]
    return [
        (warp.addresses[a], warp.addresses[b])
        for a in on
        for b in on
        if values[b] == values[a] + 1 and all(warp.names[n][a] == warp.names[n][b] for n in others)
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["sm_61", "sm_90", "sm_20"])
def test_the_sectors_at_each_alignment_are_those_of_full_warps(walk, target):
    period = 32 if target != "sm_20" else 256
    for text in (TEXTS["padded A"], transpose_spec("global"), COPY):
        for actual, warps in reports(walk, text, target):
            said = re.search(
                r"moves (\d+) sectors? at (\d+) of (\d+) alignments((?:, \d+ at \d+)*), ideal", actual.reason
            )
            if actual.space != "global" or not said:
                continue
            counts = {int(said[1]): int(said[2])} | {int(s): int(n) for s, n in re.findall(r"(\d+) at (\d+)", said[4])}
            assert sum(counts.values()) == int(said[3])
            full = max(len(active_lanes(w)) for w in warps)
            shapes: dict[tuple, Counter] = {}
            for warp in warps:
                addresses = [a for a in warp.addresses if a is not None]
                if len(addresses) == full:
                    shape = tuple(None if a is None else a - min(addresses) for a in warp.addresses)
                    shapes.setdefault(shape, Counter())[min(addresses) % period, warp.cost.sectors] += 1
            assert counts in [dict(Counter(sectors for _, sectors in cases)) for cases in shapes.values()]


@pytest.mark.parametrize("target", TARGETS)
def test_constant_reads_are_uniform_or_serialised_by_distinct_addresses(walk, target):
    for actual, warps in reports(walk, COPY, target):
        if actual.space == "constant":
            lanes = known_target(target).request_lanes
            groups = [w.addresses[n : n + lanes] for w in warps for n in range(0, 32, lanes)]
            max_addresses = max(len(set(group) - {None}) for group in groups)
            assert f"serialised: {max_addresses} addresses" in actual.reason
            assert actual.verdict == "costly"


@pytest.mark.sampled(48)
@pytest.mark.parametrize("path", FIXED, ids=lambda path: path.stem)
def test_claims_of_the_gallery_fit_a_comment_and_the_texts_stand_in_the_source(path):
    for spec in load_all(path):
        kernel = generate(spec)
        source = re.sub(r"\((long long|int|unsigned)\)", "", " ".join(kernel.source.split()))
        params = {dict(kernel.plan.param_symbols)[p.name]: p.value for p in spec.params}
        for launch in kernel.plan.kernels:
            for actual in analyze_kernel(launch, "sm_90", params).accesses:
                assert actual.text in source
                assert actual.verdict == "unknown" or len(actual.claim) <= 70
                assert actual.reason


def test_the_tiles_of_a_tiled_product_are_explained_by_their_banks():
    (spec,) = load_text(
        product_spec("{space: shared, pad: 1}", "shared").replace("[N, K]", "[K, N]").replace("B[n, k]", "B[k, n]")
    )
    params = {p.name: p.value for p in spec.params}
    report = analyze_kernel(generate(spec).plan.kernels[0], "sm_90", params)
    by_text = {each.text: each for each in report.accesses}
    assert by_text["As[ty][k]"].claim == "1 wavefront, ideal 1 (conflict-free)"
    assert by_text["As[ty][k]"].reason == (
        "bank = (17 * ty + k) mod 32; in the first warp threadIdx.x = 0..15 and ty = 0..1; "
        "32 lanes read 2 words in 2 banks, 1 wavefront, for every k"
    )
    assert by_text["As[ty][tx]"].claim == "2 wavefronts, ideal 1 (lanes 0 and 31: words 0 and 32, bank 0)"


@pytest.mark.parametrize(
    ("pad", "claim"),
    [
        (0, "32 wavefronts, ideal 1 (lanes 0 and 1: words 0 and 32, bank 0)"),
        (1, "1 wavefront, ideal 1 (odd pitch 33: 32 banks)"),
        (2, "2 wavefronts, ideal 1 (lanes 0 and 16: words 0 and 544, bank 0)"),
    ],
)
def test_a_column_of_a_tile_conflicts_as_its_pitch_says(pad, claim):
    (spec,) = load_text(transpose_spec(f"{{space: shared, pad: {pad}}}", size="M: 64, N: 64"))
    kernel = generate(spec)
    report = analyze_kernel(kernel.plan.kernels[0], "sm_90", {"M": 64, "N": 64})
    assert next(each for each in report.accesses if each.text == "tile[tx][ty + r]").claim == claim


@pytest.mark.parametrize(
    ("target", "bank_bytes", "figure"),
    [
        ("sm_13", None, "32 wavefronts, ideal 2"),
        ("sm_20", None, "8 wavefronts, ideal 1"),
        ("sm_35", 4, "4 wavefronts, ideal 1"),
        ("sm_35", 8, "4 wavefronts, ideal 1"),
        ("sm_90", None, "8 wavefronts, ideal 1"),
    ],
)
def test_a_column_of_an_unpadded_16x16_tile_costs_what_each_generation_makes_of_it(target, bank_bytes, figure):
    (spec,) = load_text(product_spec("shared", "shared", size="M: 32, K: 32, N: 32"))
    kernel = generate(spec)
    report = analyze_kernel(kernel.plan.kernels[0], target, {"M": 32, "K": 32, "N": 32}, bank_bytes=bank_bytes)
    column = next(each for each in report.accesses if each.text == "Bs[tx][k]")
    assert str(column.per_request) == figure
    lanes = [64 * (lane % 16) for lane in range(32)]
    single = warp_request("shared", "load", 4, lanes, target, bank_bytes=bank_bytes)
    assert figure.startswith(f"{single.wavefronts} wavefronts, ideal {single.ideal_wavefronts}")


def test_the_two_bank_modes_of_kepler_differ_on_a_column_of_three_words_pitch():
    (spec,) = load_text(product_spec("shared", "{space: shared, pad: 3}", size="M: 32, K: 32, N: 32"))
    launch = generate(spec).plan.kernels[0]
    costs = {
        mode: {
            a.text: a.cost
            for a in analyze_kernel(launch, "sm_35", {"M": 32, "K": 32, "N": 32}, bank_bytes=mode).accesses
        }
        for mode in (4, 8)
    }
    assert costs[4] != costs[8]


def test_fermi_counts_lines_in_l1_and_sectors_in_l2():
    (spec,) = load_text(transpose_spec("global", size="M: 64, N: 65"))
    launch = generate(spec).plan.kernels[0]
    read = {
        cache: analyze_kernel(launch, "sm_20", {"M": 64, "N": 65}, cache=cache).accesses[0].cost
        for cache in ("l1", "l2")
    }
    assert read["l1"] > read["l2"]


@pytest.mark.parametrize(
    ("subscript", "target", "claim"),
    [
        ("N - 1 - i", "sm_10", "32 sectors in 32 x 32 bytes, ideal 4 (not coalesced: lanes out of order)"),
        ("N - 1 - i", "sm_13", "4 sectors in 2 x 64 bytes, ideal 4 (128 contiguous bytes)"),
        (
            "2 * (i // 2) + 1 - i % 2",
            "sm_10",
            "32 sectors in 32 x 32 bytes, ideal 4 (not coalesced: lanes out of order)",
        ),
    ],
    ids=["reversed", "reversed on 1.3", "pairs exchanged"],
)
def test_the_order_of_lanes_keeps_a_request_of_1_0_from_being_coalesced(subscript, target, claim):
    (spec,) = load_text(
        f"""
cugen: 1
kernel: exchanged
params: {{N: 4096}}
arrays:
  x: {{shape: [N], dtype: float32}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = x[{subscript}]
schedule: {{family: direct, block: {{i: 256}}}}
"""
    )
    assert analyze(spec, target=target).kernels[0].accesses[0].claim == claim


def test_an_offset_misaligns_an_aligned_access():
    text = transpose_spec("{space: shared, pad: 1}", size="M: 64, N: 64")
    (spec,) = load_text(text)
    launch = generate(spec).plan.kernels[0]
    params = {"M": 64, "N": 64}
    aligned, moved = (analyze_kernel(launch, "sm_90", params, offsets={"A": n}).accesses[0] for n in (256, 4))
    assert (aligned.verdict, moved.verdict) == ("ideal", "costly")
    assert moved.claim == "5 sectors, ideal 4 (misaligned by 4 bytes)"


def test_lanes_of_a_loop_over_vectors_are_as_far_apart_as_its_vectors_are_long():
    (spec,) = load_text("""
cugen: 1
kernel: scale
params: {N: 1048576}
arrays: {x: {shape: [N], dtype: float32}, y: {shape: [N], dtype: float32}}
compute: y[i] = 2 * x[i]
schedule: {family: map, vectors: 2}
""")
    read, _ = analyze_kernel(generate(spec).plan.kernels[0], "sm_90", {"N": 1048576}).accesses
    assert "threadIdx.x and threadIdx.x + 1 are 16 bytes apart" in read.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offsets": {"A": 3}}, "A starts at byte 3, but 4 bytes are moved at once"),
        ({"offsets": {"Q": 4}}, "no array 'Q' in turned; known are A, B"),
        ({"bank_bytes": 8}, "sm_90 has no banks of 8 bytes; known are 4"),
    ],
)
def test_invalid_options_are_refused(options, message):
    (spec,) = load_text(transpose_spec("global"))
    with pytest.raises(ValueError, match=re.escape(message)):
        analyze_kernel(generate(spec).plan.kernels[0], "sm_90", {"M": 20, "N": 37}, **options)


@pytest.mark.parametrize(("dtype", "requests"), [("float32", 1), ("float64", 1)])
def test_a_constant_that_all_lanes_read_is_ideal_whatever_its_width(dtype, requests):
    (spec,) = load_text(COPY.replace("t[n]", "t[0]").replace("float32", dtype))
    report = analyze_kernel(generate(spec).plan.kernels[0], "sm_90", {"M": 11, "N": 37})
    constant = next(each for each in report.accesses if each.space == "constant")
    assert (constant.verdict, constant.per_request.worst) == ("ideal", requests)


def test_undocumented_rules_are_assumed_with_a_reason():
    (spec,) = load_text(transpose_spec("{space: shared, pad: 1}", "float64"))
    report = analyze_kernel(generate(spec).plan.kernels[0], "sm_80", {"M": 20, "N": 37})
    tile = [each for each in report.accesses if each.space == "shared"]
    assert {each.verdict for each in tile} == {"assumed"}
    assert all(each.doubt and each.doubt in each.reason for each in tile)


@settings(max_examples=examples(10))
@given(st.integers(0, 20), st.sampled_from([8, 16]), st.integers(1, 2), st.sampled_from(TARGETS))
def test_verdicts_are_ideal_exactly_where_no_warp_is_above_its_ideal(walk, pad, tile, times, target):
    text = product_spec("shared", f"{{space: shared, pad: {pad}}}", size=f"M: {16 * times}, K: 17, N: 20")
    for actual, warps in reports(walk, text.replace("k: 16", f"k: {tile}"), target):
        if actual.verdict == "assumed":
            continue
        excess = [
            (w.cost.wavefronts - w.cost.ideal_wavefronts) + (w.cost.sectors - w.cost.ideal_sectors) for w in warps
        ]
        assert (actual.verdict == "ideal") == (max(excess, default=0) == 0), actual.text


@pytest.mark.parametrize("target", ["sm_10", "sm_13"])
def test_a_constant_that_all_lanes_read_is_a_broadcast_on_1_x(target):
    (spec,) = load_text(COPY.replace("t[n]", "t[0]"), target=target)
    (launch,) = analyze(generate(spec)).kernels
    constant = next(each for each in launch.accesses if each.space == "constant")
    assert (constant.verdict, constant.claim) == ("ideal", "2 requests, ideal 2 (uniform address)")
    assert constant.reason.endswith("uniform: one address per half-warp")
    assert launch.facts.constant.is_uniform
    (text,) = (text for topic, text in launch.sentences if topic == "constants")
    assert "every read is uniform, a broadcast to the lanes of each request" in text


@pytest.mark.parametrize("target", ["sm_12", "sm_13"])
def test_halves_that_read_two_constants_each_are_serialised(target):
    (spec,) = load_text(COPY.replace("t[n]", "t[n % 2]"), target=target)
    (launch,) = analyze(generate(spec)).kernels
    constant = next(each for each in launch.accesses if each.space == "constant")
    assert constant.verdict == "costly"
    assert "serialised: 2 addresses of a half-warp" in constant.reason
