"""cugen turns a YAML spec into CUDA C that people can read, verify, run and commit.

Nothing is imported until it is asked for: `import cugen` costs a build step nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cugen.moved import install
from cugen.version import __version__

if TYPE_CHECKING:
    from cugen.abi.errors import RunError as RunError
    from cugen.api import run as run
    from cugen.kernel import Kernel as Kernel
    from cugen.kernel import generate as generate
    from cugen.kernel_report import Report as Report
    from cugen.kernel_report import analyze as analyze
    from cugen.pytorch import torch_op as torch_op
    from cugen.result import Result as Result
    from cugen.spec.diagnostics import SpecError as SpecError
    from cugen.spec.load import load as load
    from cugen.spec.load import load_all as load_all
    from cugen.spec.model import Spec as Spec

install()

_HOMES = {
    "analyze": "cugen.kernel_report",
    "run": "cugen.api",
    "Report": "cugen.kernel_report",
    "Result": "cugen.result",
    "load": "cugen.spec.load",
    "load_all": "cugen.spec.load",
    "generate": "cugen.kernel",
    "Kernel": "cugen.kernel",
    "Spec": "cugen.spec.model",
    "SpecError": "cugen.spec.diagnostics",
    "RunError": "cugen.abi.errors",
    "torch_op": "cugen.pytorch",
}

__all__ = [
    "Kernel",
    "Report",
    "Result",
    "RunError",
    "Spec",
    "SpecError",
    "__version__",
    "analyze",
    "generate",
    "load",
    "load_all",
    "run",
    "torch_op",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cugen' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
