"""The table of targets against figures copied from the documents, one capability at a time."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.machine import (
    Target,
    UnknownTarget,
    architecture_specific,
    canonical_name,
    default_device,
    is_known,
    known_targets,
    target,
)

DATA = Path(__file__).parents[1] / "data" / "compute_capabilities.csv"
KIB = (
    "registers_per_sm",
    "registers_per_block",
    "shared_per_sm",
    "shared_per_block",
    "shared_opt_in",
    "constant_cache_bytes",
)
PLAIN = ("registers_per_thread", "threads_per_sm", "warps_per_sm", "blocks_per_sm", "threads_per_block")


SPECIFIC = ("sm_90a",)  # architecture-specific targets; the documents list compute capabilities


def documented() -> list[dict[str, str]]:
    lines = [line for line in DATA.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


@pytest.mark.parametrize("row", documented(), ids=lambda row: row["capability"])
def test_a_target_has_the_documented_figures(row):
    gpu = target(row["capability"])
    for column in KIB:
        assert getattr(gpu, column) == int(row[column]) * 1024, column
    for column in PLAIN:
        assert getattr(gpu, column) == int(row[column]), column
    assert gpu.assumed == bool(row["assumed"])


def test_the_table_and_the_documents_list_the_same_targets():
    plain = [name for name in known_targets() if name not in SPECIFIC]
    assert plain == ["sm_" + row["capability"].replace(".", "") for row in documented()]


@pytest.mark.parametrize("name", SPECIFIC)
def test_an_architecture_specific_target_has_the_figures_of_its_capability(name):
    plain = target(name.rstrip("a"))
    assert architecture_specific(plain.name) == name
    assert replace(target(name), name=plain.name) == plain
    assert (target(name).is_architecture_specific, plain.is_architecture_specific) == (True, False)
    assert (target(name).has_wgmma, plain.has_wgmma) == (True, False)
    assert default_device(name) == default_device(plain.name)


def test_other_targets_have_no_architecture_specific_one():
    assert [name for name in known_targets() if architecture_specific(name) != name] == ["sm_90"]


def test_an_assumed_target_has_the_figures_of_a_similar_one():
    for row in documented():
        if row["assumed"]:
            assumed, similar = target(row["capability"]), target(row["assumed"])
            for column in (*KIB, *PLAIN, "constant_bytes", "grid_x", "grid_yz"):
                assert getattr(assumed, column) == getattr(similar, column)


@pytest.mark.parametrize("name", known_targets())
def test_the_figures_of_a_target_agree_with_each_other(name):
    gpu = target(name)
    assert gpu.warps_per_sm * 32 == gpu.threads_per_sm
    assert gpu.threads_per_block <= gpu.threads_per_sm
    assert gpu.shared_per_block <= gpu.shared_opt_in <= gpu.shared_per_sm
    assert gpu.registers_per_block <= gpu.registers_per_sm
    assert gpu.constant_first_level_bytes < gpu.constant_cache_bytes < gpu.constant_bytes == 65536


def test_grids_were_small_in_every_direction_before_3_0():
    assert {name: target(name).grid_x for name in known_targets() if target(name).capability < (3, 0)} == dict.fromkeys(
        ("sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_21"), 65535
    )
    assert all(target(name).grid_x == 2**31 - 1 for name in known_targets() if target(name).capability >= (3, 0))
    assert {target(name).grid_yz for name in known_targets()} == {65535}
    flat = [name for name in known_targets() if target(name).grid_z == 1]
    assert flat == ["sm_10", "sm_11", "sm_12", "sm_13"]
    assert target("sm_13").grid == (65535, 65535, 1)
    assert target("sm_20").grid == (65535, 65535, 65535)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("sm_90", "sm_90"), ("sm_90a", "sm_90a"), ("sm_100f", "sm_100"), ("9.0", "sm_90"), ("12.1", "sm_121")],
)
def test_a_target_has_several_spellings(written, canonical):
    assert canonical_name(written) == canonical
    assert is_known(written)
    assert target(written).name == canonical


@pytest.mark.parametrize(
    "written", ["", "sm_", "sm_91", "90", "9", "compute_90", "sm_90aa", "9.0.1", "SM_90", " sm_90"]
)
def test_any_other_name_is_unknown_and_the_message_lists_the_known_ones(written):
    assert not is_known(written)
    with pytest.raises(UnknownTarget, match="unknown target") as caught:
        target(written)
    assert all(name in str(caught.value) for name in known_targets())


@pytest.mark.parametrize(
    ("name", "capability"), [("sm_10", (1, 0)), ("sm_90", (9, 0)), ("sm_90a", (9, 0)), ("sm_121", (12, 1))]
)
def test_the_last_digit_is_the_minor_number(name, capability):
    assert target(name).capability == capability


def test_a_custom_target_can_be_constructed():
    custom = Target("sm_99", 1024, 512, 16, 4, 8192, 8192, 64, 4096, 4096, 4096)
    assert custom.capability == (9, 9)
    assert not custom.assumed
