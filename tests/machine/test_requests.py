"""`warp_request` as it is called: what it refuses, what it assumes, how instructions split into requests."""

from __future__ import annotations

import pytest

from cugen.analysis import WarpRequest, warp_request
from cugen.machine import Target, known_targets

INACTIVE = [None] * 32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("texture", "load", 4, INACTIVE, "sm_90"),
            "unknown space 'texture'; known are shared, global, local, constant",
        ),
        (("local", "atomic", 4, INACTIVE, "sm_90"), "'atomic' in local memory; known are load, store"),
        (("shared", "fetch", 4, INACTIVE, "sm_90"), "'fetch' in shared memory; known are load, store, async_copy"),
        (("constant", "store", 4, INACTIVE, "sm_90"), "'store' in constant memory; known are load"),
        (("shared", "load", 12, INACTIVE, "sm_90"), "no load of 12 bytes per lane; known are 1, 2, 4, 8, 16"),
        (("shared", "async_copy", 2, INACTIVE, "sm_90"), "no async_copy of 2 bytes per lane; known are 4, 8, 16"),
        (("shared", "load", 4, INACTIVE, "sm_91"), "unknown target 'sm_91'; known are sm_10, .*, sm_121"),
        (("shared", "load", 4, INACTIVE[1:], "sm_90"), "a warp has 32 lanes, but addresses holds 31"),
        (("shared", "load", 4, [2, *INACTIVE[1:]], "sm_90"), "lane 0 has 2, which is not a non-negative multiple of 4"),
        (("shared", "load", 4, [*INACTIVE[1:], -4], "sm_90"), "lane 31 has -4"),
        (("shared", "matrix_load", 16, [0, *INACTIVE[1:]], "sm_90"), "first 8, 16 or 32 lanes"),
        (("shared", "matrix_load", 16, [None, *range(0, 128, 16), *INACTIVE[9:]], "sm_90"), "first 8, 16 or 32 lanes"),
    ],
)
def test_an_invalid_instruction_is_refused_with_the_valid_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        warp_request(*arguments)


def test_options_of_other_targets_are_refused(strided):
    with pytest.raises(ValueError, match="sm_90 has no banks of 8 bytes; known are 4"):
        warp_request("shared", "load", 4, strided(1), "sm_90", bank_bytes=8)
    with pytest.raises(ValueError, match="unknown cache 'l3'; known are l1, l2"):
        warp_request("global", "load", 4, strided(1), "sm_20", cache="l3")
    with pytest.raises(ValueError, match="only an async_copy into shared memory has sources"):
        warp_request("global", "load", 4, strided(1), "sm_90", sources=strided(1))
    with pytest.raises(ValueError, match="lane 31 is active and has none"):
        warp_request("shared", "async_copy", 16, strided(1, 16), "sm_90", sources=strided(1, 16, active=31))


@pytest.mark.parametrize(
    ("space", "kind", "first"),
    [
        ("global", "atomic", "sm_11"),
        ("shared", "atomic", "sm_12"),
        ("shared", "matrix_load", "sm_75"),
        ("shared", "async_copy", "sm_80"),
        ("global", "async_copy", "sm_80"),
        ("shared", "matrix_store", "sm_90"),
    ],
)
def test_an_instruction_is_known_from_the_target_on_that_brought_it(space, kind, first, strided):
    known = []
    for name in known_targets():
        try:
            warp_request(space, kind, 16, strided(1, 16), name)
        except ValueError:
            continue
        known.append(name)
    assert known == list(known_targets())[known_targets().index(first) :]


@pytest.mark.parametrize("space", ["shared", "global", "constant"])
@pytest.mark.parametrize("target", known_targets())
def test_a_warp_without_active_lanes_costs_nothing(space, target):
    assert warp_request(space, "load", 4, INACTIVE, target) == WarpRequest()


def test_a_custom_target_can_be_analysed():
    sixteen = Target("sixteen banks", banks=16)
    assert warp_request("shared", "load", 4, list(range(0, 128, 4)), sixteen).wavefronts == 2


def test_measured_rules_are_assumed_on_other_targets(strided):
    for target in ("sm_50", "sm_86", "sm_100"):
        assert not warp_request("shared", "load", 4, strided(1), target).assumed
        for kind, width in (("load", 8), ("store", 16), ("atomic", 4)):
            cost = warp_request("shared", kind, width, strided(1, width), target)
            assert "measured on sm_90 only" in cost.assumption
            assert not warp_request("shared", kind, width, strided(1, width), "sm_90").assumed


@pytest.mark.parametrize("target", ["sm_72", "sm_88", "sm_103", "sm_121"])
@pytest.mark.parametrize("space", ["shared", "global", "constant"])
def test_every_request_is_assumed_on_an_assumed_target(target, space, strided):
    assert "of a similar target" in warp_request(space, "load", 4, strided(1), target).assumption


@pytest.mark.parametrize(
    ("space", "kind", "width", "target"),
    [
        ("shared", "load", 8, "sm_35"),
        ("shared", "atomic", 8, "sm_90"),
        ("global", "atomic", 4, "sm_90"),
        ("constant", "load", 8, "sm_80"),
    ],
)
def test_undocumented_rules_are_assumed(space, kind, width, target, strided):
    assert warp_request(space, kind, width, strided(1, width), target).assumed


def test_parts_of_one_word_are_assumed_where_only_words_were_measured(strided):
    assert warp_request("constant", "load", 1, strided(1, 1), "sm_90").assumed
    assert not warp_request("constant", "load", 1, strided(4, 1), "sm_90").assumed
    assert warp_request("shared", "store", 1, strided(1, 1), "sm_13").assumed
    assert not warp_request("shared", "store", 1, strided(4, 1), "sm_13").assumed


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("sm_13", [2, 2, 2]),
        ("sm_20", [1, 2, 4]),
        ("sm_52", [1, 2, 4]),
        ("sm_61", [1, 2, 4]),
        ("sm_70", [1, 1, 1]),
        ("sm_90", [1, 1, 1]),
    ],
)
def test_global_requests_of_4_8_and_16_bytes(target, expected, strided):
    actual = [warp_request("global", "load", width, strided(1, width), target).requests for width in (4, 8, 16)]
    assert actual == expected


@pytest.mark.parametrize(
    ("target", "cache", "sizes"),
    [
        ("sm_20", None, [128]),
        ("sm_30", None, [32] * 4),
        ("sm_30", "l1", [128]),
        ("sm_35", None, [32] * 4),
        ("sm_35", "l1", [128]),
        ("sm_52", None, [32] * 4),
        ("sm_52", "l1", [128]),
        ("sm_60", "l1", [32] * 4),
    ],
)
def test_loads_move_lines_where_they_are_cached_in_l1_before_6_0(target, cache, sizes, strided):
    loads = warp_request("global", "load", 4, strided(1), target, cache=cache)
    stores = warp_request("global", "store", 4, strided(1), target, cache=cache)
    assert [size for _, size in loads.transactions] == sizes
    assert [size for _, size in stores.transactions] == [32] * 4


def test_a_line_is_moved_again_for_each_request_of_a_wide_load(strided):
    cost = warp_request("global", "load", 8, [0] * 32, "sm_20")
    assert cost.transactions == ((0, 128), (0, 128))


def test_a_pitch_of_80_bytes_breaks_asynchronous_copies_that_64_bytes_keep_whole():
    whole = [64 * (lane // 4) + 16 * (lane % 4) for lane in range(32)]
    broken = [80 * (lane // 4) + 16 * (lane % 4) for lane in range(32)]
    cost = warp_request("shared", "async_copy", 16, whole, "sm_90")
    assert (cost.wavefronts, cost.ideal_wavefronts, cost.sectors, cost.ideal_sectors) == (4, 4, 16, 16)
    cost = warp_request("shared", "async_copy", 16, broken, "sm_90")
    assert (cost.wavefronts, cost.ideal_wavefronts, cost.sectors, cost.ideal_sectors) == (15, 4, 20, 16)


def test_measured_source_patterns_are_certain_and_others_assumed(strided):
    targets = strided(1, 16)
    given = warp_request("shared", "async_copy", 16, targets, "sm_90", sources=strided(1, 16, offset=400))
    assert given == warp_request("shared", "async_copy", 16, targets, "sm_90")
    rows = [1024 * (lane // 4) + 16 * (lane % 4) for lane in range(32)]
    cost = warp_request("shared", "async_copy", 16, targets, "sm_90", sources=rows)
    assert cost.wavefronts == 8
    assert "with one 128-byte line read per quarter-warp" in cost.assumption


def test_the_ideal_is_what_the_same_lanes_cost_without_conflicts(strided):
    cost = warp_request("shared", "load", 16, strided(8, 16), "sm_90")
    assert (cost.wavefronts, cost.ideal_wavefronts) == (32, 4)
    pairs = [128 * (lane // 2) for lane in range(32)]
    cost = warp_request("shared", "load", 8, pairs, "sm_90")
    assert (cost.wavefronts, cost.ideal_wavefronts) == (16, 1)


def test_a_transaction_shrinks_to_the_half_or_quarter_of_its_segment_that_is_used_on_1_3():
    addresses = [*range(128, 192, 4), *[None] * 16]
    assert warp_request("global", "load", 4, addresses, "sm_13").transactions == ((128, 64),)
    addresses = [*range(96, 160, 4), *[None] * 16]
    assert warp_request("global", "load", 4, addresses, "sm_13").transactions == ((96, 32), (128, 32))


def test_inactive_lanes_out_of_order_are_assumed_to_need_no_transaction_on_1_0():
    cost = warp_request("global", "load", 4, [8, None, 0, *[None] * 29], "sm_10")
    assert cost.transactions == ((0, 32), (0, 32))
    assert cost.assumed
