"""Devices, inputs, comparison; and `cugen.run(kernel, A=a)`, for which the package itself can be called."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """Python gives a package the attribute `run` as soon as anything in here is imported, whatever stood there before;
    so the function of that name in the public API has to be the package."""

    def __call__(self, kernel_or_spec: Any, /, **arguments: Any) -> dict[str, Any]:
        from cugen.api import run

        return run(kernel_or_spec, **arguments)


sys.modules[__name__].__class__ = _CallablePackage
