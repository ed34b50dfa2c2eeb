"""Options of a schedule that any family takes: what they change, and what is refused."""

from __future__ import annotations

import re

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.schedule import lock
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.spec.model import Schedule
from cugen.toolchain.cuda import compile_ptx

TWICE = """\
cugen: 1
kernel: twice
arrays:
  x: {shape: [1000], dtype: float32}
  y: {shape: [1000], dtype: float32}
compute: y[i] = 2 * x[i]
"""


@pytest.mark.parametrize(
    ("target", "option", "words"),
    [
        (
            "sm_60",
            "carveout: 50",
            "sm_60 has no L1 that is part of shared memory; sm_20 to sm_37 have, and sm_70 and newer",
        ),
        ("sm_90", "bank_bytes: 8", "sm_90 has 4 bytes for the width of a bank"),
        ("sm_37", "max_registers: 64", "sm_37 has no limit on the registers of one kernel; sm_50 and newer have"),
        ("sm_53", "max_registers: 160", "sm_53 has 128 registers at most for a thread of a block of 256"),
    ],
)
def test_an_option_that_the_target_lacks_is_refused(target: str, option: str, words: str) -> None:
    (spec,) = load_text(f"{TWICE}schedule: {{{option}}}\n", target=target)
    with pytest.raises(SpecError) as caught:
        generate(spec)
    (found,) = caught.value.diagnostics
    assert found.code == "CG2111"
    assert words in found.message
    assert found.span.line == 7


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("carveout: 101", "CG1029"),
        ("carveout: half", "CG1015"),
        ("max_registers: 8", "CG1029"),
        ("max_registers: 256", "CG1029"),
        ("fast_math: 1", "CG1015"),
        ("bank_bytes: 6", "CG1029"),
        ("bank_bytes: 16", "CG1029"),
    ],
)
def test_a_value_that_no_target_has_is_refused_when_the_spec_is_read(option: str, code: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_text(f"{TWICE}schedule: {{{option}}}\n")
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_a_kernel_with_wgmma_takes_no_limit_of_registers() -> None:
    text = """\
cugen: 1
kernel: product
target: sm_90a
params: {N: 4096}
arrays:
  A: {shape: [N, N], dtype: bfloat16}
  B: {shape: [N, N], dtype: bfloat16}
  C: {shape: [N, N], dtype: bfloat16}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {max_registers: 64}
"""
    (spec,) = load_text(text)
    with pytest.raises(SpecError) as caught:
        generate(spec, analysis=False)
    assert "the sums of wgmma stay in registers" in caught.value.diagnostics[0].message


def test_a_lock_keeps_the_options_of_the_spec() -> None:
    (spec,) = load_text(f"{TWICE}schedule: {{carveout: 50}}\n")
    filled = lock.filled(spec, (("y", Schedule(tunables=(("vector", 2),))),))
    assert dict(filled)["y"].options.carveout == 50
    assert dict(filled)["y"].tunables == (("vector", 2),)


def test_kernels_into_which_a_statement_is_split_have_its_options() -> None:
    text = """\
cugen: 1
kernel: total
params: {N: 100000000}
arrays: {x: {shape: [N], dtype: float32}, y: {shape: [], dtype: float32}}
compute: y = sum(x[i], i)
schedule: {carveout: 0}
"""
    (spec,) = load_text(text)
    launches = generate(spec, analysis=False).plan.kernels
    assert [launch.options.carveout for launch in launches] == [0] * len(launches)


def with_memory(array: str, memory: str) -> str:
    declared = f"{array}: {{shape: [1000], dtype: float32"
    return TWICE.replace(f"{declared}}}", f"{declared}, memory: {memory}}}")


def test_a_misspelt_word_for_all_trips_is_refused_with_the_right_one() -> None:
    with pytest.raises(SpecError) as caught:
        load_text(f"{TWICE}schedule: {{unroll: {{v: Full}}}}\n")
    (error,) = caught.value.diagnostics
    assert (error.code, error.help) == ("CG1015", "write an integer or `full`")


@pytest.mark.parametrize("space", ["managed", "mapped"])
def test_operators_hold_wherever_an_array_is_allocated(space: str) -> None:
    (spec,) = load_text(with_memory("x", f"{{space: {space}, load: cs}}"))
    memory = spec.array("x").memory
    assert (memory.space, memory.allocation) == (None, space)
    assert "__ldcs" in generate(spec).source


@pytest.mark.parametrize(("array", "option"), [("x", "store: cs"), ("y", "load: cg"), ("y", "store: wb, load: cg")])
def test_an_operator_without_an_access_is_refused(array: str, option: str) -> None:
    (spec,) = load_text(with_memory(array, f"{{space: global, {option}}}"))
    with pytest.raises(SpecError) as caught:
        generate(spec)
    assert [d.code for d in caught.value.diagnostics] == ["CG2110"]


@pytest.mark.parametrize("memory", ["{space: global, load: nc}", "{space: global, store: ca}"])
def test_an_operator_that_ptx_lacks_is_refused(memory: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_text(with_memory("x", memory))
    assert [d.code for d in caught.value.diagnostics] == ["CG1052"]


@pytest.mark.parametrize(("operator", "sectors"), [("ca", 8), ("cg", 5), ("cs", 8), ("lu", 8)])
def test_loads_past_l1_move_segments_on_fermi(operator: str, sectors: int) -> None:
    text = with_memory("x", f"{{space: global, load: {operator}}}").replace("y: {shape: [1000]", "y: {shape: [992]")
    (spec,) = load_text(text.replace("x[i]", "x[i + 1]"), target="sm_20")
    load, _ = generate(spec).reports[0].accesses
    assert load.per_request is not None
    assert load.per_request.worst == sectors


PRODUCT = """\
cugen: 1
kernel: product
params: {N: 1024}
arrays:
  A: {shape: [N, N], dtype: float32, memory: {space: global, load: cg}}
  B: {shape: [N, N], dtype: float32}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


def test_a_product_loads_by_the_operator() -> None:
    (spec,) = load_text(PRODUCT)
    source = generate(spec, analysis=False).source
    assert "__ldcg(&A[" in source or "load_cg<4>(&A[" in source
    assert "memcpy_async" not in source


def test_asynchronous_copies_of_an_array_with_an_operator_are_refused() -> None:
    text = PRODUCT.replace("{space: global, load: cg}", "{space: shared, stages: 3, load: cg}")
    (spec,) = load_text(f"{text}schedule: {{family: gemm}}\n")
    with pytest.raises(SpecError) as caught:
        generate(spec, analysis=False)
    assert "copies A asynchronously, without a cache operator" in str(caught.value)


TYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3", "int8", "int16", "int64", "uint32", "bool")


def test_elements_of_every_size_are_loaded_and_stored_by_an_operator() -> None:
    text = "cugen: 1\nkernel: copies\narrays:\n"
    for dtype in TYPES:
        text += f"  x_{dtype}: {{shape: [37, 13], dtype: {dtype}, memory: {{space: global, load: cg}}}}\n"
        text += f"  y_{dtype}: {{shape: [37, 13], dtype: {dtype}, memory: {{space: global, store: wt}}}}\n"
    text += "compute: |\n" + "".join(f"  y_{dtype}[i, j] = x_{dtype}[i, j]\n" for dtype in TYPES)
    (spec,) = load_text(text)
    kernel = generate(spec, analysis=False)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
    ptx = compile_ptx(kernel.source, kernel.name, kernel.manifest.target)
    accesses = re.findall(r"\b((?:ld|st)\.global[.a-z]*)\.[a-z]\d+", ptx)
    assert {name.removesuffix(".v") for name in accesses} == {"ld.global.cg", "st.global.wt"}
