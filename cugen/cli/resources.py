"""Compiled resources of kernels: registers, spills, stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cugen.kernel import Kernel
    from cugen.toolchain.cuda import KernelResources


@dataclass(frozen=True)
class Resources:
    """Resources by kernel name; empty, with a reason, if no installed compiler supports the target."""

    kernels: Mapping[str, KernelResources]
    compiler: str = ""
    reason: str = ""


def resources_of(kernel: Kernel) -> Resources:
    """Compiles a kernel. Raises CompileError if the compiler rejects its source."""
    from cugen.toolchain.codes import COMPILE_FAILED
    from cugen.toolchain.cuda import compile_cubin
    from cugen.toolchain.errors import CompileError, ToolMissing

    try:
        cubin = compile_cubin(kernel.source, kernel.name, kernel.manifest.target)
    except ToolMissing as error:
        return Resources({}, reason=f"{error.tool} {error.problem}; {error.cure}")
    except CompileError as error:
        if error.code == COMPILE_FAILED:
            raise
        return Resources({}, reason=error.reason)
    return Resources(cubin.kernels, cubin.compiler)
