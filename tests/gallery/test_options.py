"""Options of the gallery: the machine code or the launch of their specs shows them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Memory, Options, Spec
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin, compile_ptx


def without_options(spec: Spec) -> Kernel:
    schedules = tuple((name, replace(schedule, options=Options())) for name, schedule in spec.schedules)
    arrays = tuple(replace(a, memory=replace(a.memory, load="", store="")) for a in spec.arrays)
    return generate(replace(spec, schedules=schedules, arrays=arrays), analysis=False)


def ptx(kernel: Kernel) -> str:
    return compile_ptx(kernel.source, kernel.name, kernel.manifest.target)


def accesses(text: str) -> set[str]:
    """The instructions that access global memory in PTX, with their cache operators."""
    return set(re.findall(r"\b((?:ld|st)\.global(?:\.(?:[a-z]{2}))?)\.", text))


def instructions(kernel: Kernel, name: str) -> list[str]:
    cubin = compile_cubin(kernel.source, kernel.name, kernel.manifest.target)
    return re.findall(rf"\b{name}[.\w]*", disassemble(cubin.image))


@pytest.mark.slow
def test_cache_operators_are_those_of_the_instructions(gallery: dict[str, Spec]) -> None:
    spec = gallery["pitched_copy"]
    made = generate(spec, analysis=False)
    assert accesses(ptx(made)) == {"ld.global.cs", "st.global.cs"}
    assert accesses(ptx(without_options(spec))) == {"ld.global.nc", "st.global"}
    assert all(".EF" in name for name in (*instructions(made, "LDG"), *instructions(made, "STG")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "loads"), [("ca", "STRONG.SM"), ("cg", "STRONG.GPU"), ("cs", ".EF"), ("lu", ".LU")]
)
def test_each_operator_of_loads_has_its_instruction(gallery: dict[str, Spec], operator: str, loads: str) -> None:
    spec = gallery["pitched_copy"]
    arrays = (replace(a, memory=replace(a.memory, load=operator if a.name == "dense" else "")) for a in spec.arrays)
    made = generate(replace(spec, arrays=tuple(arrays)), analysis=False)
    assert f"ld.global.{operator}." in ptx(made)
    assert all(loads in name for name in instructions(made, "LDG"))


@pytest.mark.parametrize("operator", ["wb", "cg", "cs", "wt"])
def test_each_operator_of_stores_is_in_the_ptx(gallery: dict[str, Spec], operator: str) -> None:
    spec = gallery["pitched_copy"]
    memory = Memory("global", store=operator)
    arrays = (replace(a, memory=memory if a.name == "pitched" else a.memory) for a in spec.arrays)
    text = ptx(generate(replace(spec, arrays=tuple(arrays)), analysis=False))
    assert f"st.global.{operator}" in accesses(text)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize(("load", "store"), [("ca", "wb"), ("cg", "cg"), ("cs", "cs"), ("lu", "wt")])
def test_targets_without_functions_of_operators_have_the_instructions(dtype: str, load: str, store: str) -> None:
    """A compiler of today takes their code for a newer target, with one element and with vectors."""
    text = f"""cugen: 1
kernel: shifted
params: {{N: 1000}}
arrays:
  x: {{shape: [N], dtype: {dtype}, memory: {{space: global, load: {load}}}}}
  y: {{shape: [N], dtype: {dtype}, memory: {{space: global, store: {store}}}}}
  z: {{shape: [N], dtype: {dtype}, memory: {{space: global, store: {store}}}}}
compute: |
  y[i] = x[i]
  z[i] = x[i] if i == 0 else x[i - 1]
"""
    for target in ("sm_20", "sm_30"):
        (spec,) = load_text(text, target=target)
        made = generate(spec, analysis=False)
        assert f"load_{load}_ptx<" in made.source
        assert not re.search(r"\b__(?:ld|st)[a-z]{2}\b", re.sub("//.*", "", made.source))
        assert accesses(compile_ptx(made.source, made.name, "sm_75")) == {f"ld.global.{load}", f"st.global.{store}"}
        assert verify(spec, made.source, made.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.slow
def test_an_unroll_factor_is_that_of_the_machine_code(gallery: dict[str, Spec]) -> None:
    spec = gallery["matmul_naive"]
    rolled = replace(spec, schedules=(("", replace(spec.schedules[0][1], options=Options(unroll=(("k", 1),)))),))
    counts = [len(instructions(generate(chosen, analysis=False), "FFMA")) for chosen in (spec, rolled)]
    assert counts == [8, 1]


@pytest.mark.slow
def test_a_register_limit_is_kept_by_the_compiler(gallery: dict[str, Spec]) -> None:
    spec = gallery["logistic"]
    made, plain = generate(spec, analysis=False), without_options(spec)
    registers = [
        compile_cubin(kernel.source, kernel.name, kernel.manifest.target).kernels[kernel.name].registers
        for kernel in (made, plain)
    ]
    assert registers[0] <= 24 < registers[1]


@pytest.mark.slow
def test_fast_functions_are_instructions_of_the_special_function_units(gallery: dict[str, Spec]) -> None:
    spec = gallery["logistic"]
    made, plain = generate(spec, analysis=False), without_options(spec)
    assert "ex2.approx" in ptx(made)
    assert "div.rn" in ptx(plain)
    assert "div.rn" not in ptx(made)
    assert len(instructions(made, "FCHK")) == 0  # of a division that is rounded correctly


def test_a_carve_out_is_in_the_launch(gallery: dict[str, Spec]) -> None:
    made = generate(gallery["matmul_dynamic_shared"], analysis=False)
    call = "cudaFuncSetAttribute(matmul_dynamic_shared, cudaFuncAttributePreferredSharedMemoryCarveout, 100);"
    assert call in made.source
    assert made.manifest.launches[0].carveout == 100
    assert made.manifest.requires == ("launch_options",)


def test_a_bank_width_is_in_the_launch_and_in_the_analysis(gallery: dict[str, Spec]) -> None:
    spec = gallery["transpose_f64_kepler"]
    made, plain = generate(spec), without_options(spec)
    guarded = (
        "#if CUDART_VERSION < 13000\n"
        "    cudaFuncSetSharedMemConfig(transpose_f64_kepler, cudaSharedMemBankSizeEightByte);\n"
        "#endif\n"
    )
    assert guarded in made.source
    assert "SharedMemConfig" not in plain.source
    assert made.manifest.launches[0].bank_bytes == 8
    worst = [
        [report.per_request.worst for report in kernel.reports[0].accesses if report.space == "shared"]
        for kernel in (made, generate(plain.spec))
    ]
    assert worst == [[1, 1], [2, 2]]
