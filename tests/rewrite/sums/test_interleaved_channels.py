"""Reductions of interleaved channels of no whole words are computed for all channels of a pixel at once."""

from __future__ import annotations

import pytest

from cugen.analysis.launches.price import plan_prices
from cugen.kernel import generate
from cugen.plan.traversal.walking import accesses
from cugen.rewrite.sums import interleaved_channels
from cugen.rewrite.sums.interleaved_channels import with_interleaved_channels
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

IMAGE = """cugen: 1
kernel: image
params: {{H: {h}, W: {w}}}
{indices}
arrays:
  x: {{shape: [H, W, {count}], dtype: {dtype}{more}}}
  m: {{shape: [{shape}], dtype: float32{layout}}}
compute: |
  {statement}
"""
MEAN = "m[c] = mean(cast(x[i, j, c], float32), i, j)"
ROWS = "m[i, c] = max(cast(x[i, j, c], float32), j)"
HALF = "m[i, j, c] = sum(cast(x[2 * i + r, 2 * j + s, c], float32), r, s)"
PLANES = "m[c, i, j] = max(cast(x[2 * i + r, 2 * j + s, c], float32), r, s)"
SHAPES = {MEAN: "3", ROWS: "H, 3", HALF: "H // 2, W // 2, 3", PLANES: "3, H // 2, W // 2"}


def image(
    statement: str, h: int | str = 4000, w: int | str = 6000, dtype: str = "uint8", more: str = "", layout: str = ""
) -> Spec:
    options = {"dtype": dtype, "more": more, "layout": layout, "shape": SHAPES.get(statement, "3")}
    options["indices"] = "indices: {r: 2, s: 2}" if "r, s" in statement else ""
    (spec,) = load_text(IMAGE.format(h=h, w=w, count=3, statement=statement, **options))
    return spec


@pytest.mark.parametrize("statement", list(SHAPES))
def test_bytes_of_pixels_take_little_longer_than_their_memory(statement: str) -> None:
    kernel = generate(image(statement))
    prices = plan_prices(kernel.plan, {}, None, kernel.reports)
    assert sum(price.seconds for price in prices) < 2 * sum(price.bound_seconds for price in prices)


@pytest.mark.parametrize("statement", [HALF, PLANES])
def test_windows_of_pixels_are_read_in_vectors(statement: str) -> None:
    body = generate(image(statement), analysis=False).plan.kernels[0].body
    assert max(access.width for access in accesses(body) if access.array.name == "x") >= 8


@pytest.mark.sampled(32)
@pytest.mark.parametrize("statement", list(SHAPES))
@pytest.mark.parametrize("sizes", [(2, 2), (14, 38), (30, 256), ("dynamic", "dynamic")])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bool"])
def test_all_channels_are_right(
    statement: str, sizes: tuple[int | str, int | str], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interleaved_channels, "_MIN_BYTES", 1)
    spec = image(statement, *sizes, dtype=dtype)
    assert len(with_interleaved_channels(spec).statements) == 3
    kernel = generate(spec, analysis=False)
    params = {"H": 14, "W": 38} if "dynamic" in sizes else {}
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(), params=params)
    assert (run.verification.messages, run.outcome.faults) == ((), ())


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(image(MEAN, dtype="float32"), id="whole words"),
        pytest.param(image(MEAN, 1000, 2000), id="a few bytes"),
        pytest.param(image(MEAN, more=", layout: column"), id="planes"),
        pytest.param(image("m[c] = sum(x[i, j, c] == c, i, j)"), id="by key"),
        pytest.param(image("m[c] = sum(cast(x[i, j, c], float32) * x[i, j, 0], i, j)"), id="another channel"),
        pytest.param(image(HALF, layout=", layout: column"), id="results along another index"),
        pytest.param(image("m[c] = max(cast(x[i, j, c], float32), i, j, where=i > c)"), id="a condition on channels"),
        pytest.param(
            image("m[c] = max(x[i, j, c], i, j) + sum(x[p, q, c] - max(x[k, l, c], k, l), p, q)"), id="dependent"
        ),
    ],
)
def test_other_reductions_stay_as_they_are_written(spec: Spec) -> None:
    assert with_interleaved_channels(spec) is spec


@pytest.mark.parametrize(("step", "size"), [(1, 2), (8, 8)])
def test_windows_that_overlap_or_are_long_stay_windows(step: int, size: int) -> None:
    options = {"dtype": "uint8", "more": "", "layout": "", "shape": "400, 600, 3"}
    options["indices"] = f"indices: {{r: {size}, s: {size}}}"
    statement = f"m[i, j, c] = max(cast(x[{step} * i + r, {step} * j + s, c], float32), r, s)"
    (spec,) = load_text(IMAGE.format(h=4000, w=6000, count=3, statement=statement, **options))
    assert with_interleaved_channels(spec) is spec
