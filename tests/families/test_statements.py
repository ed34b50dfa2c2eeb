"""Hand-picked edge cases (`statements/*.yaml`, each explained by its `doc`): every kernel agrees with the reference and
compiles for a GPU without warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice, build
from cugen.spec import c_names
from cugen.spec.model import Spec
from cugen.spec.parse.keys import LOAD_OPERATORS, STORE_OPERATORS
from cugen.toolchain.cuda import compile_cubin

Check = Callable[[Kernel, CpuDevice], None]

PARTS = 4  # of the kernels, which are looked through for those that use shared memory


@pytest.mark.sampled(152)
def test_each_kernel_agrees_with_the_reference(statement: Kernel, check: Check) -> None:
    check(statement, CpuDevice())


@pytest.mark.slow
def test_each_source_compiles_without_a_warning(statement: Kernel) -> None:
    cubin = compile_cubin(statement.source, statement.name, "sm_90", prefer="nvrtc")
    assert [str(warning) for warning in cubin.warnings] == []


@pytest.mark.slow
def test_a_sanitised_run_has_no_errors(statement: Kernel, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    # Helpers make the language's integers wrap; signed overflow in C is still an error.
    flags = tuple(flag for flag in build._COMMON if flag != "-fwrapv")
    monkeypatch.setattr(build, "_COMMON", flags)
    check(statement, CpuDevice(sanitize=True, shuffle=3, limit_seconds=900))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_two_threads_race_for_shared_memory(statements: Mapping[str, Spec], check: Check, part: int) -> None:
    kernels = [generate(spec, analysis=False) for spec in list(statements.values())[part::PARTS]]
    sharing = [kernel for kernel in kernels if "__shared__" in kernel.source]
    assert len(sharing) > 20 // PARTS
    for kernel in sharing:
        check(kernel, CpuDevice(races=True, uninitialised=True, limit_seconds=900))


def test_each_statement_has_a_doc(statements: Mapping[str, Spec]) -> None:
    assert len(statements) > 100
    assert len({spec.doc for spec in statements.values()}) == len(statements)


def test_no_array_can_take_the_name_of_a_helper(request: pytest.FixtureRequest) -> None:
    helpers = Path(request.config.rootpath, "templates", "functions")
    names = {path.name.split(".")[0] for path in helpers.iterdir()} - {"vector"}
    for access, operators in {"load": LOAD_OPERATORS, "store": STORE_OPERATORS}.items():  # a template for all operators
        names -= {f"{access}_cached", f"{access}_ptx"}
        names |= {f"{access}_{operator}{suffix}" for operator in operators for suffix in ("", "_ptx")}
    for copy, suffix in (("tma_load", ""), ("tma_load", "_multicast"), ("tma_store", "")):  # and one for all ranks
        names -= {f"{copy}{suffix}"}
        names |= {f"{copy}_{rank}d{suffix}" for rank in range(2, 6)}
    assert [name for name in sorted(names) if not c_names.is_taken(name)] == []
