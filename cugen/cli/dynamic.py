"""Values of dynamic params for a run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cugen.cli.specs import settings_of
from cugen.cli.values import DEFAULT, SET, Value, plain

if TYPE_CHECKING:
    from cugen.spec.model import Param, Spec


def dynamic_values(
    spec: Spec, args: argparse.Namespace, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[Value, ...]:
    """Values of the dynamic params: of `--set`, else extents of the given arrays, else defaults. RunError
    where there is none, and for values that violate a range or a requirement, or give an array a negative extent.
    Loading has checked those of `--set`."""
    from cugen.abi.codes import MISSING_ARGUMENT, PARAM_REFUSED
    from cugen.abi.errors import RunError
    from cugen.runtime.inputs import refuse_negative_extents
    from cugen.spec.resolve.param_expressions import holds

    values: list[Value] = []
    missing: list[Param] = []
    for param in spec.params:
        if not param.is_dynamic:
            continue
        value = _value(param, spec, args, shapes or {})
        if value is None:
            missing.append(param)
            continue
        if not param.allows(int(value.value)):
            message = f"{value} is refused: `{param.name}` is {param.allowed}"
            raise RunError(PARAM_REFUSED, message, "give an array of another shape")
        values.append(value)
    if missing:
        names = ", ".join(f"`{param.name}`" for param in missing)
        settings = " ".join(f"--set {param.name}={_example_value(param)}" for param in missing)
        needed = f"values for the params {names}" if len(missing) > 1 else f"a value for the param {names}"
        raise RunError(
            MISSING_ARGUMENT, f"{spec.kernel} needs {needed}", f"such as {settings}; or write a `default` in the spec"
        )
    known = {p.name: p.value for p in spec.params if p.value is not None} | plain(values)
    for requirement in spec.require:
        if not holds(requirement.condition, known):
            raise RunError(PARAM_REFUSED, f"`{requirement.text}` doesn't hold for {', '.join(map(str, values))}")
    refuse_negative_extents(spec, known)
    return tuple(values)


def _value(param: Param, spec: Spec, args: argparse.Namespace, shapes: Mapping[str, Sequence[int]]) -> Value | None:
    from cugen.spec.expressions import ParamValue

    settings = settings_of(args)
    if param.name in settings:
        return Value(param.name, int(settings[param.name]), SET)
    for name, shape in shapes.items():
        for extent, actual in zip(spec.array(name).shape, shape, strict=False):
            if isinstance(extent, ParamValue) and extent.name == param.name:
                return Value(param.name, actual, f"shape of {name}")
    return None if param.default is None else Value(param.name, param.default, DEFAULT)


def _example_value(param: Param) -> int:
    """A valid value of the param: 64, or the next allowed one."""
    return max(-(-max(param.minimum, 64) // param.multiple_of) * param.multiple_of, param.multiple_of)
