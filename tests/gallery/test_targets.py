"""The gallery for twenty targets: each spec is generated without what its target lacks, or refused with the reason."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from cugen.kernel import Kernel, generate
from cugen.machine import target
from cugen.machine.features import SPELT
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_all
from cugen.toolchain import nvrtc
from cugen.toolchain.cuda import compile_cubin

ROOT = Path(__file__).parents[2]
SPECS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "specs").rglob("*.yaml"))
TARGETS = (
    *("sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_21", "sm_30", "sm_35", "sm_37", "sm_50"),
    *("sm_53", "sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
)


@cache
def generated(file: str, name: str) -> tuple[tuple[Kernel, ...], tuple[SpecError, ...]]:
    """The kernels of a file for a target, and the refusals of its other specs."""
    kernels, refusals = list[Kernel](), list[SpecError]()
    for spec in load_all(ROOT / file, target=name):
        try:
            kernels.append(generate(spec, analysis=False))
        except SpecError as error:
            refusals.append(error)
    return tuple(kernels), tuple(refusals)


@pytest.mark.sampled(300)
@pytest.mark.parametrize("file", SPECS)
@pytest.mark.parametrize("name", TARGETS)
def test_a_spec_is_generated_without_what_the_target_lacks_or_refused_with_the_reason(name: str, file: str) -> None:
    gpu = target(name)
    kernels, refusals = generated(file, name)
    for kernel in kernels:
        code = re.sub(r"//.*", "", kernel.source)
        assert [feature.name for feature in SPELT if not feature.is_on(gpu) and re.search(feature.tokens, code)] == []
        for planned in kernel.plan.kernels:
            assert planned.threads <= gpu.threads_per_block
            assert planned.shared_bytes <= gpu.shared_per_block
            assert planned.shared_bytes + planned.dynamic_shared_bytes <= gpu.shared_opt_in
    lacks = r"has no .+; (?:sm_\d+ and newer have|sm_\d+ to sm_\d+ have|sm_90a alone has)"
    reason = rf"{name} (?:{lacks}|allows \d+|has \d+)|registers on {name}$"
    for error in refusals:
        for finding in error.diagnostics:
            assert any(re.search(reason, text) for text in (finding.message, *finding.notes)), finding


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TARGETS[-3:], "sm_90a"])
def test_the_newest_targets_take_the_whole_gallery(name: str) -> None:
    """But for wgmma, which sm_90a alone has, and Kepler's width of banks."""
    refused = {file for file in SPECS if generated(file, name)[1]}
    absent = ("kepler", *(["wgmma"] if name != "sm_90a" else []))
    assert refused == {file for file in SPECS if any(word in (ROOT / file).read_text() for word in absent)}


# CUDA 13 compiles for sm_75 and newer; with CUDA_HOME of a CUDA 12, those from sm_50 on are compiled here.
COMPILED = [name for name in TARGETS if (found := nvrtc.find()) and int(name.removeprefix("sm_")) in found.targets]


@pytest.mark.sampled(600)
@pytest.mark.parametrize("file", SPECS)
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiler_that_knows_the_target_takes_what_is_generated(name: str, file: str) -> None:
    for kernel in generated(file, name)[0]:
        cubin = compile_cubin(kernel.source, kernel.name, name)
        assert [str(warning) for warning in cubin.warnings] == []
        assert set(cubin.kernels) == {launch.kernel for launch in kernel.manifest.launches}
