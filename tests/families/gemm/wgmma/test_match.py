"""What wgmma refuses, and why; and which operands are copied first."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.plan.kernel import Kernel
from cugen.rewrite import temporaries
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from tests.families.gemm.wgmma.conftest import RESULTS, product

OF_BATCHES = """
target: sm_90a
params: {M: 256, N: 256, K: 256, W: 2, X: 3, Y: 5, Z: 2}
arrays:
  A: {shape: [W, X, Y, Z, M, K], dtype: bfloat16}
  B: {shape: [Z, Y, X, W, N, K], dtype: bfloat16}
  C: {shape: [W, Y, X, Z, M, N], dtype: float32}
compute: C[w, y, x, z, m, n] = sum(A[w, x, y, z, m, k] * B[z, y, x, w, n, k], k)
schedule: {family: wgmma}
"""


def placed(array: str, memory: str, **changes: str) -> str:
    """The GEMM with an operand in this memory."""
    lines = product(**changes).splitlines()
    return "\n".join(
        line[:-1] + f", memory: {{{memory}}}}}" if line.startswith(f"  {array}:") else line for line in lines
    )


@pytest.mark.parametrize(
    ("text", "reason", "key"),
    [
        pytest.param(product(target="sm_90"), "sm_90a", "", id="no such instructions"),
        pytest.param(
            product(terms="A[{a}] * B[{b}], k, where=k <= m"), "a condition masks single terms", "", id="condition"
        ),
        pytest.param(
            OF_BATCHES, "up to 5 dimensions, and A has 6 that aren't fused", "", id="more batch indices than a map has"
        ),
        pytest.param(product(k="dynamic"), "k may have none", "", id="K may be 0"),
        pytest.param(product(k="{range: [0, 64], multiple_of: 8}"), "k may have none", "", id="K from 0 on"),
        pytest.param(
            product(schedule="family: wgmma, thread: {m: 8, n: 8}"), "thread tiles", "schedule.thread", id="thread tile"
        ),
        pytest.param(
            product(schedule="family: wgmma, cores: cuda"), "on tensor cores", "schedule.cores", id="cores: cuda"
        ),
        pytest.param(
            product(schedule="family: wgmma, stages: 17"), "stages may be", "schedule.stages", id="too many stages"
        ),
        pytest.param(
            product(schedule="family: wgmma, split_k: 3"), "split_k may be", "schedule.split_k", id="cluster of 3"
        ),
        pytest.param(
            product(k=448, schedule="family: wgmma, split_k: 8"),
            "k may have only 7",
            "schedule.split_k",
            id="more blocks than k-tiles",
        ),
        pytest.param(
            product(k="{range: [8, 4096], multiple_of: 8}", schedule="family: wgmma, split_k: 2"),
            "k may have only 1",
            "schedule.split_k",
            id="as many k-tiles as blocks in some calls only",
        ),
        pytest.param(
            product(schedule="family: wgmma, sliced_k: 2"), "no tunable", "schedule.sliced_k", id="another tunable"
        ),
        pytest.param(
            product(dtype="float64", result="float64"), "float64 x float64 with sums in float64", "", id="float64"
        ),
        pytest.param(product(b_dtype="float16"), "no instruction for bfloat16 x float16", "", id="two 16-bit types"),
        pytest.param(
            product(dtype="float32").replace("tf32: true", "tf32: false"), "float32 x float32", "", id="no tf32"
        ),
        pytest.param(
            product(terms="abs(A[{a}]) * B[{b}], k"), "takes sums of A[m, k] * B[k, n]", "", id="another term"
        ),
        pytest.param(
            product(compute="C[{c}] = sum({terms}) / sum(A[{a}] * B[{b}] * B[{b}], k)"), "one sum", "", id="two sums"
        ),
        pytest.param(product(k=260), "rows of A aren't multiples of 16 bytes", "", id="rows that TMA can't read"),
        pytest.param(
            product(dtype="int8", layout="nn"), "contiguous along k, and B is along n", "", id="MN-major bytes"
        ),
        pytest.param(
            placed("A", "space: shared, pad: 8"),
            "multiplies tiles of A that TMA swizzles, without padding",
            "arrays.A.memory",
            id="pad",
        ),
        pytest.param(
            placed("A", "space: register"),
            "multiplies tiles of A that TMA copies from global to shared memory",
            "arrays.A.memory",
            id="registers",
        ),
        pytest.param(
            product(schedule="family: wgmma, block: {m: 96}, swap_ab: false"),
            "has tiles with M of 64, 128, 192, 256, and N a multiple of 16 from 32 to 192, 224 or 256",
            "schedule.block",
            id="BM = 96",
        ),
        pytest.param(
            product(schedule="family: wgmma, block: {m: 256, n: 256}"),
            "has accumulators in registers, and too few for this tile",
            "schedule.block",
            id="more accumulators than registers",
        ),
        pytest.param(
            product(schedule="family: wgmma, block: {n: 32}, split_k: 2, multicast: 2"),
            "shares tiles of B in clusters that don't split K",
            "schedule.multicast",
            id="shared tiles of split sums",
        ),
        pytest.param(
            product(schedule="family: wgmma, block: {m: 256, n: 128}, stages: 16"),
            "has too little shared memory for so many stages of this tile",
            "schedule.stages",
            id="more stages than shared memory",
        ),
    ],
)
def test_what_wgmma_cannot_compute_is_refused_with_the_reason(reasons, text: str, reason: str, key: str) -> None:
    refusals = reasons("wgmma", text)
    assert [r for r in refusals if reason in r.reason and r.key == key], refusals


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "float8_e4m3", "float8_e5m2", "float32"])
def test_every_type_that_has_an_instruction_is_taken(reasons, dtype: str) -> None:
    assert reasons("wgmma", product(dtype=dtype)) == ()


# Copies of operands


def kernels(made, text: str) -> tuple[tuple[Kernel, ...], Kernel]:
    """The kernels before the GEMM, and that one."""
    *copies, gemm = made(text).plan.kernels
    assert gemm.family == "wgmma"
    return tuple(copies), gemm


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("changes", "copies"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"layout": "tn"}, [], id="none of MN-major 16-bit types"),
        pytest.param({"k": 260}, ["A_copy[m, k] = A", "B_copy[n, k] = B"], id="rows of both"),
        pytest.param({"n": 260, "layout": "nn"}, ["B_copy[k, n] = B"], id="MN-major rows"),
        pytest.param({"m": 260, "layout": "tt"}, ["A_copy[k, m] = A"], id="MN-major rows of A"),
        pytest.param({"dtype": "int8", "layout": "nn"}, ["B_copy[n, k] = B"], id="bytes become K-major"),
        pytest.param(
            {"dtype": "float8_e4m3", "layout": "tn"}, ["A_copy[m, k] = A", "B_copy[n, k] = B"], id="floats of 8 bits"
        ),
        pytest.param({"dtype": "float32", "layout": "nn"}, ["B_copy[n, k] = B"], id="tf32 becomes K-major"),
        pytest.param({"k": 260, "batch": 3}, ["A_copy[z, m, k] = A", "B_copy[z, n, k] = B"], id="with the batch index"),
        pytest.param(
            {"m": "dynamic", "k": "{range: [1, 4096]}"}, ["A_copy[m, k] = A", "B_copy[n, k] = B"], id="unknown rows"
        ),
    ],
)
def test_operands_that_tma_or_wgmma_cannot_read_are_copied_first(made, changes: dict[str, object], copies) -> None:
    before, gemm = kernels(made, product(**changes))
    assert [statement.partition(",  in")[0] for kernel in before for statement in kernel.computes] == [
        f"{copy}, in rows that TMA reads" for copy in copies
    ]
    copied = [copy.partition("[")[0] for copy in copies]
    assert sorted(source.name for source in gemm.tensor_maps if source.name.endswith("_copy")) == copied


@pytest.mark.sampled(11)
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize(
    ("a", "b", "c", "sums"),
    [
        pytest.param("y, m, k", "k, n", "y, m, n", "k", id="rows of a batch"),
        pytest.param("m, y, k", "n, y, k", "m, n", "y, k", id="K of two indices"),
        pytest.param("m, y, k", "y, k, n", "m, n", "y, k", id="K of two indices along N"),
        pytest.param("m, k", "k, y, n", "m, y, n", "k", id="N of two indices"),
        pytest.param("o, m, k", "o, k, n", "o, m, n", "k", id="an index of extent 1"),
        pytest.param("y, m, o, k", "n, k", "n, y, m", "o, k", id="a transposed result"),
        pytest.param("m, k, y", "n, k, y", "m, n, y", "k", id="a batch that is contiguous"),
        pytest.param("k, m, y", "y, n, k", "m, n, y", "k", id="a batch that is contiguous in one operand"),
    ],
)
def test_copies_of_fused_dimensions_are_those_of_the_spec(made, prove, a: str, b: str, c: str, sums: str, dtype: str):
    arrays = {"A": (a, dtype), "B": (b, dtype), "C": (c, RESULTS.get(dtype, "float32"))}
    shapes = {name: subscripts.replace("0", "o").upper() for name, (subscripts, _) in arrays.items()}
    lines = "\n".join(f"  {name}: {{shape: [{shapes[name]}], dtype: {of}}}" for name, (_, of) in arrays.items())
    text = (
        f"target: sm_90a\nparams: {{M: 30, N: 21, K: 37, Y: 3, O: 1}}\narrays:\n{lines}\n"
        f"schedule: {{family: wgmma}}\ncompute: C[{c}] = sum(A[{a}] * B[{b}], {sums})\n"
    )
    assert any("in rows that TMA reads" in line for kernel in kernels(made, text)[0] for line in kernel.computes)
    prove(text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dtype", "layout"), [("bfloat16", "nn"), ("int8", "nn"), ("float32", "tt"), ("float16", "nt")]
)
def test_rows_of_a_copy_are_multiples_of_128_bytes_apart(made, dtype: str, layout: str) -> None:
    text = product(67, 77, 87, dtype=dtype, layout=layout)
    _, gemm = kernels(made, text)
    static = made(text).plan.context.static
    copies = [source for source in gemm.tensor_maps if source.name.endswith("_copy")]
    assert len(copies) == 2
    for source in copies:
        (row, element), (_, columns) = (map(static, sizes) for sizes in (source.strides, source.shape))
        assert element == 1
        assert row * source.dtype.bytes % 128 == 0
        assert 0 <= row - columns < 128 // source.dtype.bytes


def test_a_copy_has_a_name_of_its_own(made) -> None:
    text = product(k=260, more="  A_copy: {shape: [N], dtype: float32}", compute="C[{c}] = sum({terms}) + A_copy[n]")
    before, _ = kernels(made, text)
    names = [statement.partition("[")[0] for kernel in before for statement in kernel.computes]
    assert len(names) == len({*names, "A_copy"}) - 1


def test_operands_that_no_copy_helps_are_not_copied(made) -> None:
    """The layout of a tile that the spec asks for, which the copy wouldn't have."""
    with pytest.raises(SpecError, match="wgmma"):
        made(placed("A", "space: shared, pad: 8", k=260))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "is_copied"),
    [
        pytest.param((2265, 101, 228), False, id="9.4 us by gemm and 13.7 with copies on an H100"),
        pytest.param((640, 640, 642), False, id="few multiply-adds"),
        pytest.param((640, 640, 643), True, id="rows that gemm copies element by element"),
        pytest.param((1024, 1024, 1026), True, id="many multiply-adds"),
    ],
)
def test_operands_are_copied_unasked_where_gemm_takes_longer_by_the_models(made, sizes, is_copied: bool) -> None:
    families = [kernel.family for kernel in made(product(*sizes, schedule="")).plan.kernels]
    assert families == (["map", "map", "wgmma"] if is_copied else ["gemm"])
    *_, gemm = kernels(made, product(*sizes))
    assert gemm.family == "wgmma"


OF_A_TEMPORARY = """
target: sm_90a
params: {N: 8, M: 1}
arrays:
  x: {shape: [N, 2053], dtype: int8}
  w: {shape: [2053, M], dtype: int8}
  y: {shape: [N, M], dtype: float32}
indices: {k: 2053}
compute: |
  t[n, m] = sum(x[n, k] * w[k, m], k)
  a[n] = argmax(t[n, m], m)
  y[n, m] = t[n, m] * (m == a[n])
"""


@pytest.mark.slow
def test_a_product_that_is_a_temporary_is_weighed_as_one_that_is_stored(made) -> None:
    """Its copies were weighed as those of a product that stores nothing, which ended in an internal error."""
    assert made(OF_A_TEMPORARY).plan.kernels


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "seconds", "launches"), [((256, 256, 258), 0, 3), ((1024, 1024, 1026), 1, 1)])
def test_the_time_of_the_copies_themselves_counts(monkeypatch: pytest.MonkeyPatch, sizes, seconds, launches) -> None:
    """Free ones pay for the smaller GEMM, and ones of a second for none."""
    monkeypatch.setattr(temporaries, "STORING_LAUNCH_SECONDS", seconds)
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{product(*sizes, schedule='')}")
    assert len(generate(spec, analysis=False).plan.kernels) == launches
