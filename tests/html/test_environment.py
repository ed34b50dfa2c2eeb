"""The formats of figures."""

from __future__ import annotations

import pytest

from cugen.html.environment import bytes_text, count_text, rate_text, worst


def test_rates_have_their_prefix():
    assert [rate_text(rate) for rate in (1.979e15, 66.9e12, 1e9, 5e6, 3)] == [
        "1.979 PFLOP/s",
        "66.9 TFLOP/s",
        "1 GFLOP/s",
        "5 MFLOP/s",
        "3 FLOP/s",
    ]


def test_sizes_have_their_prefix():
    assert [bytes_text(size) for size in (0, 999, 1250, 3_456_789)] == ["0 B", "999 B", "1.25 KB", "3.46 MB"]


def test_nouns_follow_their_number():
    assert [count_text(number, "access") for number in (1, 2)] == ["1 access", "2 accesses"]
    assert count_text(1200, "block") == "1,200 blocks"


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [(["ideal", "costly"], "costly"), (["ideal", "assumed"], "assumed"), (["assumed", "unknown"], "unknown")],
)
def test_several_verdicts_have_the_worst_one(verdicts, expected):
    assert worst(verdicts) == expected
