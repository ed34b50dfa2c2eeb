"""Products whose output interleaves the dimensions of their operands: one GEMM, and a copy."""

from __future__ import annotations

from random import Random

import pytest

from cugen.kernel import generate
from cugen.rewrite import output_order
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text


def contraction(
    output: str, x: str, y: str, sizes: dict[str, int], *, epilogue="{}", dtype="float32", more="", becomes="="
):
    """`output = sum(x * y)` over the indices that the output lacks, each index a letter."""
    contracted = ", ".join(sorted(set(x) & set(y) - set(output)))
    names = {array: ", ".join(letters) for array, letters in (("z", output), ("x", x), ("y", y))}
    value = epilogue.format(f"sum(x[{names['x']}] * y[{names['y']}], {contracted})")
    params = ", ".join(f"{letter.upper()}: {size}" for letter, size in sizes.items())
    (spec,) = load_text(
        f"""
cugen: 1
kernel: f
params: {{{params}}}
arrays:
  x: {{shape: [{names["x"].upper()}], dtype: {dtype}}}
  y: {{shape: [{names["y"].upper()}], dtype: {dtype}}}
  r: {{shape: [{names["z"].upper()}], dtype: {dtype}}}
  z: {{shape: [{names["z"].upper()}], dtype: {dtype}}}
compute: z[{names["z"]}] {becomes} {value}
{more}""".replace("" if "r[" in value else f"  r: {{shape: [{names['z'].upper()}], dtype: {dtype}}}\n", "")
    )
    return spec


LARGE = {"a": 61, "b": 67, "e": 59, "f": 43, "k": 2491}


def temporaries(spec) -> list[str]:
    return [array.name for array in generate(spec, analysis=False).plan.workspace]


@pytest.mark.parametrize("output", ["aebf", "eafb", "abef"])
def test_it_is_one_gemm_where_tiles_of_a_batch_would_be_partial(output):
    spec = contraction(output, "abk", "efk", LARGE)
    plan = generate(spec, analysis=False).plan
    is_interleaved = output != "abef"
    assert ("z_product" in [array.name for array in plan.workspace]) == is_interleaved
    gemm = plan.kernels[-1 - is_interleaved]
    assert gemm.family == "gemm"
    assert "batch" not in gemm.computes[0]


def test_pixels_of_two_by_two_phases_are_one_gemm():
    spec = contraction("aebf", "abk", "efk", {"a": 512, "b": 64, "e": 256, "f": 2, "k": 256}, dtype="float16")
    assert "z_product" in temporaries(spec)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("output", "sizes"),
    [
        pytest.param("aebf", LARGE | {"b": 512, "f": 128}, id="whole tiles"),
        pytest.param("aebf", LARGE | {"k": 8}, id="a short sum"),
        pytest.param("abef", LARGE, id="the order of the operands"),
        pytest.param("aebf", LARGE | {"a": 1, "e": 1}, id="dimensions of one"),
    ],
)
def test_others_are_stored_at_once(output, sizes):
    assert "z_product" not in temporaries(contraction(output, "abk", "efk", sizes))


def test_small_matrices_times_a_common_one_are_a_batch():
    spec = contraction("iuv", "uk", "ivk", {"i": 264704, "u": 8, "v": 8, "k": 8})
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert launch.family == "batched"


def test_a_schedule_or_a_placement_is_for_the_product_as_it_is_written():
    scheduled = contraction("aebf", "abk", "efk", LARGE, more="schedule: {family: gemm}")
    assert "z_product" not in temporaries(scheduled)


def test_a_matrix_in_the_epilogue_is_read_in_the_order_of_the_output():
    spec = contraction("aebf", "abk", "efk", LARGE, epilogue="2 * {} + r[a, e, b, f]")
    *_, product, last = generate(spec, analysis=False).plan.kernels
    assert [array.name for array in product.arrays if array.name == "r"] == []
    assert "r" in [array.name for array in last.arrays]


@pytest.fixture
def without_minimum(monkeypatch):
    """Sizes that a CPU multiplies fast are ordered, too."""
    monkeypatch.setattr(output_order, "_is_faster", lambda *_: True)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(20))
def test_results_are_right(seed, without_minimum):
    random = Random(seed)
    sizes = {letter: random.choice((2, 3, 5, 8)) for letter in "abefgk"} | {"k": random.choice((9, 17))}
    x, y = random.choice(("abk", "kba", "akb", "gabk")), random.choice(("efk", "kfe", "ekf"))
    y = "g" + y if "g" in x else y
    output = random.choice(("aebf", "ebfa", "faeb", "eafb"))
    output = "g" + output if "g" in x else output
    sizes = {letter: size for letter, size in sizes.items() if letter in x + y}
    epilogue, becomes = random.choice(
        (("{}", "="), ("2 * {}", "+="), (f"{{}} + r[{', '.join(output)}]", "="), ("-{}", "="))
    )
    dtype = random.choice(("float32", "float32", "bfloat16", "float64"))
    spec = contraction(output, x, y, sizes, epilogue=epilogue, dtype=dtype, becomes=becomes)
    kernel = generate(spec, analysis=False)
    assert "z_product" in [array.name for array in kernel.plan.workspace]
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=seed % 4 == 0))
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize(("a", "e"), [(1, 3), (7, 5), (3, 0)])
def test_products_of_typical_sizes_are_ordered_and_right_at_others(a, e):
    tells = {letter: f"{{range: [0, 4096], default: {LARGE[letter]}}}" for letter in "ae"}
    spec = contraction("aebf", "abk", "efk", LARGE | tells | {"b": 67, "f": 43, "k": 129})
    kernel = generate(spec, analysis=False)
    assert "z_product" in [array.name for array in kernel.plan.workspace]
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(), params={"A": a, "E": e})
    assert run.verification.passed, run.verification.messages
