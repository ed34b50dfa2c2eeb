"""How targets split requests and hand out resources, against the documents."""

from __future__ import annotations

import pytest

from cugen.machine import Target, known_targets, target

# registers: rule, unit, sub-partitions; shared memory: unit, reserved; banks and their widths
RULES = {
    ("sm_10", "sm_11"): ("block", 256, 1, 512, 0, 16, (4,)),
    ("sm_12", "sm_13"): ("block", 512, 1, 512, 0, 16, (4,)),
    ("sm_20", "sm_21"): ("warp", 64, 2, 128, 0, 32, (4,)),
    ("sm_30", "sm_35", "sm_37"): ("warp", 256, 4, 256, 0, 32, (4, 8)),
    ("sm_50", "sm_52", "sm_53"): ("warp", 256, 4, 256, 0, 32, (4,)),
    ("sm_60",): ("warp", 256, 2, 256, 0, 32, (4,)),
    ("sm_61", "sm_62", "sm_70", "sm_72", "sm_75"): ("warp", 256, 4, 256, 0, 32, (4,)),
    ("sm_80", "sm_86", "sm_87", "sm_88", "sm_89"): ("warp", 256, 4, 128, 1024, 32, (4,)),
    ("sm_90", "sm_90a", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"): ("warp", 256, 4, 128, 1024, 32, (4,)),
}


@pytest.mark.parametrize("names", RULES, ids=lambda names: names[0])
def test_resources_are_allocated_as_documented(names):
    for name in names:
        gpu = target(name)
        assert (
            gpu.register_rule,
            gpu.register_unit,
            gpu.sub_partitions,
            gpu.shared_unit,
            gpu.shared_reserved,
            gpu.banks,
            gpu.bank_modes,
        ) == RULES[names]


def test_every_target_is_in_the_table_of_rules():
    assert sorted(name for names in RULES for name in names) == sorted(known_targets())


def test_request_rules_changed_with_these_targets():
    def runs(field):
        actual = []
        for name in known_targets():
            if not actual or actual[-1][1] != getattr(target(name), field):
                actual.append((name, getattr(target(name), field)))
        return actual

    assert runs("shared_rule") == [
        ("sm_10", "half_warps"),
        ("sm_20", "ways"),
        ("sm_30", "double_words"),
        ("sm_50", "phases"),
    ]
    assert runs("global_rule") == [
        ("sm_10", "in_order"),
        ("sm_12", "segments"),
        ("sm_20", "lines"),
        ("sm_60", "sectors"),
    ]
    assert runs("global_split") == [("sm_10", False), ("sm_20", True), ("sm_70", False)]
    assert runs("request_lanes") == [("sm_10", 16), ("sm_20", 32)]


def test_a_custom_target_needs_only_a_name():
    assert Target("mine").warps_per_sm == 64


@pytest.mark.parametrize("field", ["shared_rule", "global_rule", "register_rule", "global_cache"])
def test_an_unknown_rule_is_refused(field):
    with pytest.raises(ValueError, match=f"unknown {field} 'other'; known are "):
        Target("mine", **{field: "other"})
