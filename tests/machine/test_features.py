"""Features by compute capability, as the programming guide lists them, and what is printed in CUDA C."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import cugen
from cugen.machine import features, known_targets, target

ROOT = Path(cugen.__file__).parents[1]
# Of all targets, or macros and names of compilers.
PLAIN = {
    *("__align__", "__constant__", "__cplusplus", "__device__", "__forceinline__", "__global__", "__host__"),
    *("__float2", "__uint_as_float", "__float_as_uint", "__ushort_as_half", "__byte_perm"),  # conversions
    *(f"__{name}f" for name in ("cos", "exp", "log", "log10", "log2", "sin", "tan")),  # of fast math
    *("__builtin_assume", "__fdividef"),
    *("__ld", "__st"),  # with the letters of a cache operator, whose feature has them
    *("__launch_bounds__", "__restrict__", "__shared__", "__syncthreads", "__threadfence"),
}


@pytest.mark.parametrize(
    ("feature", "last_without", "first"),
    [
        (features.FLOAT64, "sm_12", "sm_13"),
        (features.VOTES, "sm_11", "sm_12"),
        (features.BALLOTS, "sm_13", "sm_20"),
        (features.SHUFFLES, "sm_21", "sm_30"),
        (features.READ_ONLY_LOADS, "sm_30", "sm_35"),
        (features.FUNNEL_SHIFTS, "sm_30", "sm_35"),
        (features.FLOAT16_ARITHMETIC, "sm_52", "sm_53"),
        (features.SPIN_WAITS, "sm_62", "sm_70"),
        (features.OPT_IN_SHARED, "sm_62", "sm_70"),
        (features.ASYNC_COPIES, "sm_75", "sm_80"),
        (features.CLUSTERS, "sm_89", "sm_90"),
        (features.ATOMICS["int32", "global"], "sm_10", "sm_11"),
        (features.ATOMICS["int32", "shared"], "sm_11", "sm_12"),
        (features.ATOMICS["uint64", "shared"], "sm_13", "sm_20"),
        (features.ATOMICS["float32", "global"], "sm_13", "sm_20"),
        (features.ATOMICS["float64", "global"], "sm_53", "sm_60"),
    ],
    ids=lambda value: value.name.replace(" ", "_") if isinstance(value, features.Feature) else value,
)
def test_a_feature_begins_with_a_target(feature: features.Feature, last_without: str, first: str) -> None:
    names = known_targets()
    assert names.index(first) == names.index(last_without) + 1
    assert feature.why_not(target(last_without)) == f"{last_without} has no {feature.name}; {first} and newer have"
    assert feature.why_not(target(first)) == ""
    assert feature.first == first


@pytest.mark.parametrize("name", known_targets())
def test_the_features_agree_with_the_other_columns_of_the_table(name: str) -> None:
    gpu = target(name)
    assert gpu.has_clusters == features.CLUSTERS.is_on(gpu)
    assert ("async_copy" in gpu.shared_kinds) == features.ASYNC_COPIES.is_on(gpu)
    assert (gpu.shared_opt_in > 48 * 1024) == features.OPT_IN_SHARED.is_on(gpu)
    for space, kinds in (("shared", gpu.shared_kinds), ("global", gpu.global_kinds)):
        assert ("atomic" in kinds) == features.ATOMICS["uint32", space].is_on(gpu)


def test_every_intrinsic_that_is_printed_belongs_to_a_feature_or_to_all_targets() -> None:
    trees = [ast.parse(path.read_text()) for path in (ROOT / "cugen" / "emit" / "printer").glob("*.py")]
    literals = [n.value for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    texts = [path.read_text() for path in (ROOT / "templates").rglob("*.j2")]
    texts += [text for text in literals if isinstance(text, str)]
    printed = {word for text in texts for word in re.findall(r"(?<!\w)__[a-z]\w*", text)}
    spelt = re.compile("|".join(feature.tokens for feature in features.SPELT))
    assert "__shfl_xor_sync" in printed
    assert {word for word in printed - PLAIN if not spelt.search(f"{word}(")} == set()


def test_code_for_targets_before_3_5_is_for_reading() -> None:
    reading = [name for name in known_targets() if features.why_not_compiled(target(name))]
    assert reading == ["sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_21", "sm_30"]
