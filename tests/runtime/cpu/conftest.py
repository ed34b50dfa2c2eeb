"""Jobs for the CPU device in few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cugen.abi.manifest import (
    ArrayArgument,
    LaunchEntry,
    Manifest,
    ParamArgument,
    ScalarArgument,
    Size,
    Upload,
    Workspace,
)
from cugen.runtime.device import Job
from cugen.toolchain import host
from cugen.toolchain.errors import ToolMissing

MakeJob = Callable[..., Job]


@pytest.fixture(scope="session", autouse=True)
def compiler() -> None:
    try:
        host.compiler()
    except ToolMissing as error:
        pytest.skip(f"NO C++ COMPILER, THE CPU DEVICE IS UNTESTED: {error}")


@pytest.fixture(scope="session")
def make_job() -> MakeJob:
    """A job of one kernel, `k`, whose parameters are the arrays, the scalars and the params, in this order.

    Arrays named in `outputs` are outputs, in `inouts` inouts. `launches` replaces the one launch by pairs of a
    kernel and its arguments.
    """

    def make(
        source: str,
        arrays: Mapping[str, NDArray[Any]],
        *,
        outputs: tuple[str, ...] = ("out",),
        inouts: tuple[str, ...] = (),
        scalars: Mapping[str, tuple[str, float]] = MappingProxyType({}),
        params: Mapping[str, int] = MappingProxyType({}),
        workspace: Mapping[str, Size] = MappingProxyType({}),
        grid: tuple[Size, Size, Size] = (1, 1, 1),
        block: tuple[int, int, int] = (32, 1, 1),
        dynamic: int = 0,
        uploads: tuple[Upload, ...] = (),
        launches: tuple[tuple[str, tuple[str, ...]], ...] = (),
        repeat: int = 1,
        alignment: int = 4,
        cluster: int = 1,
    ) -> Job:
        def role(name: str) -> str:
            return "output" if name in outputs else "inout" if name in inouts else "input"

        arguments = (
            *(
                ArrayArgument(name, role(name), a.dtype.name, a.shape, (1,) * a.ndim, a.size, alignment)
                for name, a in arrays.items()
            ),
            *(ScalarArgument(name, dtype) for name, (dtype, _) in scalars.items()),
            *(ParamArgument(name, "int32", 0, 1 << 30, 1) for name in params),
        )
        names = (*(a.name for a in arguments), *workspace)
        manifest = Manifest(
            kernel="test",
            version="0",
            spec_file="test.yaml",
            spec_hash="",
            target="sm_90",
            params={},
            arguments=arguments,
            workspace=tuple(Workspace(name, "float32", size) for name, size in workspace.items()),
            uploads=uploads,
            launches=tuple(
                LaunchEntry(kernel, grid, block, 0, dynamic, takes, "", cluster)
                for kernel, takes in launches or (("k", names),)
            ),
        )
        values = {name: value for name, (_, value) in scalars.items()}
        return Job(source, manifest, {name: a.ravel() for name, a in arrays.items()}, params, values, repeat)

    return make


@pytest.fixture(scope="session")
def nans() -> Callable[[int], NDArray[Any]]:
    """A float32 output that nothing was written to yet."""
    return lambda count: np.full(count, np.nan, np.float32)
