"""Options on kernels of the gallery: what is compared, and the sections that are made of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin
from tests.benchmarks import benchmark

options: Any = benchmark("generator.options")
latencies, page = benchmark("machine.latencies"), benchmark("generator.options_page")


@pytest.mark.sampled(23)
@pytest.mark.parametrize("case", options.CASES, ids=lambda case: f"{case.option}-{case.kernel}")
def test_variants_differ_from_the_kernel_without_the_option(case: options.Case) -> None:
    variants = case.variants()
    assert len(variants) > 1
    first = variants.pop(options.WITHOUT)
    assert all(kernel.source != first.source for kernel in variants.values())


def test_the_sections_are_current_with_their_figures() -> None:
    text = page.PAGE.read_text()
    for mark, part, path in (
        ("options", page.options_part, page.OPTIONS),
        ("latencies", page.latencies_part, page.LATENCIES),
    ):
        assert f"<!-- {mark} -->\n{part(json.loads(path.read_text()))}<!-- end {mark} -->" in text


def test_what_is_wrong_or_the_same_code_is_said() -> None:
    times = {name: {"median": 10.0 + number} for number, name in enumerate(("without", "4"))}
    row = {"option": "unroll", "kernel": "k", "params": {"N": 1000}, "arrays": [], "cold_us": times}
    line = page.options_part(
        {
            "device": "",
            "date": "",
            "cugen": "",
            "command": "",
            "cases": [row | {"same": {"8": "4"}, "wrong": {"2": "y"}}],
        }
    ).splitlines()[-1]
    assert line == "| `unroll` | `k` | N = 1,000 | 10.00 | `4` 11.00 (1.10); `8` the same code as `4`; `2` wrong: y |"


@pytest.mark.parametrize("count", [2, 3, 1000])
def test_a_chase_goes_through_all_elements_before_it_returns(count: int) -> None:
    following, seen = latencies.cycle(count), [0]
    while (position := int(following[seen[-1]])) != 0:
        seen.append(position)
    assert sorted(seen) == list(range(count))


@pytest.mark.slow
def test_each_chase_is_of_the_instruction_that_it_measures() -> None:
    text = disassemble(compile_cubin(latencies.SOURCE.read_text(), "latencies", "sm_90").image)
    bodies = {part.partition(":")[0]: part for part in text.split(".text.")[1:]}
    wanted = {"l1": "LDG.E.64 ", "l2": "LDG.E.64.STRONG.GPU", "shared": "LDS ", "constant": "LDC ", "texture": "TLD"}
    for unit, instruction in (wanted | {"registers": "FFMA"}).items():
        assert bodies[f"chase_{unit}"].count(instruction) >= 128  # those of a loop that is unrolled
