"""The functional signature of a kernel: from inputs and numbers to outputs."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass

from cugen.abi.codes import WRONG_DTYPE, WRONG_SHAPE
from cugen.abi.errors import RunError
from cugen.abi.manifest import ArrayArgument, Manifest, ParamArgument, ScalarArgument
from cugen.abi.sizes import evaluate
from cugen.spec.types import DTYPES


@dataclass(frozen=True, slots=True)
class Signature:
    """`params` are the dynamic ones that can't be deduced from an input; `inputs` include in-out arrays."""

    kernel: str
    inputs: tuple[ArrayArgument, ...]
    scalars: tuple[ScalarArgument, ...]
    params: tuple[ParamArgument, ...]
    outputs: tuple[ArrayArgument, ...]
    fixed: Mapping[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments, in order."""
        return tuple(argument.name for arguments in (self.inputs, self.scalars, self.params) for argument in arguments)

    @property
    def updated(self) -> tuple[str, ...]:
        """Parameters of the schema that are mutated."""
        return tuple(_parameter(array.name) for array in self.inputs if array.role == "inout")

    @property
    def schema(self) -> str:
        """Operator schema of PyTorch. Python keywords get a trailing underscore."""
        aliases = {name: f"Tensor({chr(ord('a') + position)}!)" for position, name in enumerate(self.updated)}
        typed = [
            *((aliases.get(_parameter(array.name), "Tensor"), array.name) for array in self.inputs),
            *((_kind(scalar.dtype), scalar.name) for scalar in self.scalars),
            *(("SymInt", param.name) for param in self.params),
        ]
        parameters = ", ".join(f"{kind} {_parameter(name)}" for kind, name in typed)
        returned = ", ".join(["Tensor"] * len(self.outputs))
        return f"({parameters}) -> {returned if len(self.outputs) == 1 else f'({returned})'}"

    def sizes(self, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int]) -> dict[str, int]:
        """All params, from the shapes of the inputs and the `given` values. RunError CG5002 for a wrong rank."""
        params = {**self.fixed, **given}
        for array in self.inputs:
            shape = shapes[array.name]
            if len(shape) != len(array.shape):
                message = f"`{array.name}` has {len(shape)} dimensions; {self.kernel} was made for {len(array.shape)}"
                raise RunError(WRONG_SHAPE, message)
            for size, extent in zip(array.shape, shape, strict=True):
                if isinstance(size, str) and size.isidentifier():
                    params.setdefault(size, extent)
        return params

    def check_dtype(self, array: ArrayArgument, dtype: str) -> None:
        """RunError CG5003 for another element type."""
        if dtype != array.dtype:
            raise RunError(WRONG_DTYPE, f"`{array.name}` holds {dtype}; {self.kernel} was made for {array.dtype}")


def signature_of(manifest: Manifest) -> Signature:
    arrays = [a for a in manifest.arguments if isinstance(a, ArrayArgument)]
    inputs = tuple(a for a in arrays if a.role != "output")
    deduced = {size for array in inputs for size in array.shape}
    return Signature(
        manifest.kernel,
        inputs,
        tuple(a for a in manifest.arguments if isinstance(a, ScalarArgument)),
        tuple(a for a in manifest.arguments if isinstance(a, ParamArgument) and a.name not in deduced),
        tuple(a for a in arrays if a.role == "output"),
        manifest.params,
    )


def extents(sizes: tuple[int | str, ...], params: Mapping[str, int]) -> tuple[int, ...]:
    """Evaluated sizes; a size that is a param is its value itself, which may be a symbolic integer of a tracer."""
    return tuple(params[size] if isinstance(size, str) and size in params else evaluate(size, params) for size in sizes)


def _parameter(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _kind(dtype: str) -> str:
    if dtype == "bool":
        return "bool"
    return "float" if DTYPES[dtype].is_float else "int"
