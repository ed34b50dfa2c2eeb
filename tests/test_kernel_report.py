"""`cugen.analyze`: every access of every launch with its claim, and all of it as JSON."""

from __future__ import annotations

import json

import pytest

import cugen
from cugen.spec.load import load_text

TWO_LAUNCHES = """
cugen: 1
kernel: product
params: {M: 50, K: 33, N: 40}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: shared}
  T: {shape: [M, N], dtype: float32, memory: scratch}
  C: {shape: [M, N], dtype: float32}
compute: |
  T[m, n] = sum(A[m, k] * B[k, n], k)
  C[m, n] = sum(T[m, j], j) + T[m, n]
"""

DYNAMIC = """
cugen: 1
kernel: k
params: {N: dynamic, S: 4}
arrays:
  A: {shape: [N], dtype: float32}
  C: {shape: [N], dtype: float32}
compute: C[i] = A[i] * S
schedule: {family: direct}
"""


def spec_of(text: str):
    (spec,) = load_text(text)
    return spec


def test_a_spec_and_its_kernel_give_the_same_report():
    spec = spec_of(TWO_LAUNCHES)
    report = cugen.analyze(spec)
    assert report.to_dict() == cugen.analyze(cugen.generate(spec)).to_dict()
    assert [launch.kernel for launch in report.kernels] == ["product_T", "product_C"]


def test_every_access_outside_registers_has_cost_ideal_verdict_and_claim():
    for launch in cugen.analyze(spec_of(TWO_LAUNCHES)).kernels:
        assert launch.accesses
        for access in launch.accesses:
            assert access.cost >= access.ideal > 0
            assert access.verdict in ("ideal", "costly")
            assert access.claim
            assert access.reason


def test_the_report_is_json_with_one_entry_for_each_access_and_nothing_that_json_lacks():
    report = cugen.analyze(spec_of(TWO_LAUNCHES))
    decoded = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert decoded["kernel"] == "product"
    for launch, made in zip(decoded["launches"], report.kernels, strict=True):
        assert [access["text"] for access in launch["accesses"]] == [access.text for access in made.accesses]
        assert [branch["text"] for branch in launch["facts"]["branches"]] == list(made.branches)
        assert [(s["topic"], s["text"]) for s in launch["sentences"]] == list(made.sentences)
    facts = decoded["launches"][0]["facts"]
    assert facts["work"]["flop"] == {"float32": report.kernels[0].facts.work.all_flop}
    assert facts["traffic"]["moved"] == report.kernels[0].facts.traffic.moved


def test_what_is_unknown_is_null_in_json():
    gather = """
cugen: 1
kernel: k
params: {V: 50, N: 200}
arrays:
  table: {shape: [V], dtype: float32}
  ids: {shape: [N], dtype: int32}
  C: {shape: [N], dtype: float32}
compute: C[i] = table[ids[i]]
"""
    (launch,) = cugen.analyze(spec_of(gather)).to_dict()["launches"]
    access = next(a for a in launch["accesses"] if a["array"] == "table")
    assert (access["verdict"], access["cost"], access["ratio"], access["totals"]) == ("unknown", None, None, None)
    assert access["doubt"]
    assert launch["facts"]["traffic"]["moved"] is None


def test_params_give_dynamic_params_their_values_and_no_others():
    spec = spec_of(DYNAMIC)
    (launch,) = cugen.analyze(spec, params={"N": 64}).kernels
    assert (launch.facts.unknown, launch.facts.launch.blocks) == ("", 1)
    for name in ("S", "X"):
        with pytest.raises(ValueError, match=f"no dynamic param '{name}'; known are N"):
            cugen.analyze(spec, params={name: 64})
    with pytest.raises(ValueError, match="known are none"):
        cugen.analyze(spec_of(TWO_LAUNCHES), params={"M": 64})


def test_without_a_value_each_access_has_its_worst_request_and_no_totals():
    (launch,) = cugen.analyze(spec_of(DYNAMIC)).kernels
    assert launch.facts.unknown == "N has no value"
    for access in launch.accesses:
        assert access.totals is None
        assert (access.per_request.worst, access.per_request.worst_ideal) == (4, 4)
    assert launch.to_dict()["accesses"][0]["cost"] is None


def test_a_device_alone_says_which_target_is_meant():
    (launch, _) = cugen.analyze(spec_of(TWO_LAUNCHES), device="A100").kernels
    assert (launch.facts.target, launch.facts.device, launch.facts.is_default) == ("sm_80", "A100", False)


def test_the_same_kernel_costs_more_on_an_older_target():
    text = DYNAMIC.replace("dynamic", "100").replace("A[i] * S", "A[(i + 1) % N] * S")
    sectors = {
        target: cugen.analyze(spec_of(text), target=target).kernels[0].facts.traffic.sectors_read
        for target in ("sm_10", "sm_90")
    }
    assert sectors["sm_10"] > sectors["sm_90"]
