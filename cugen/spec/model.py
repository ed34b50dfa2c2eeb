"""`Spec`: the frozen, typed and checked description of one kernel: what is computed, not how.

Everything is in the order of the file, so that generated code never depends on the order of a set.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from operator import is_
from typing import Any

from cugen.machine import architecture_specific
from cugen.spec.expressions import NOWHERE, Boundary, Expr, Index, Span
from cugen.spec.types import DType

_COMMON_SIZE = 1024
_HASHED_IF_SET = {"hashed": "if set"}  # a field that came later: specs without it keep their hash


@dataclass(frozen=True, slots=True)
class Param:
    """An integer parameter. `value` is None for a dynamic one, a multiple of `multiple_of` in `minimum .. maximum`.

    `default` is the value of a dynamic one in runs that give it none, and a typical one: generated code is right for
    all values, and planned for sizes about that."""

    name: str
    value: int | None
    minimum: int = 0
    maximum: int = 2**31 - 1
    multiple_of: int = 1
    span: Span = field(default=NOWHERE, compare=False)
    default: int | None = field(default=None, metadata=_HASHED_IF_SET)

    @property
    def is_dynamic(self) -> bool:
        """Whether the value is known only at launch."""
        return self.value is None

    def allows(self, value: int) -> bool:
        """Whether a dynamic param may have the value."""
        return self.minimum <= value <= self.maximum and value % self.multiple_of == 0

    @property
    def typical(self) -> int:
        """The value; of a dynamic param its default, or a common size that it may have."""
        if self.value is not None or self.default is not None:
            return self.value if self.value is not None else self.default or 0
        multiple = self.multiple_of
        return max(self.minimum, min(self.maximum, _COMMON_SIZE)) // multiple * multiple or multiple

    @property
    def allowed(self) -> str:
        """The values of a dynamic param, in words."""
        kind = "a whole number" if self.multiple_of == 1 else f"a multiple of {self.multiple_of}"
        return f"{kind} from {self.minimum} to {self.maximum}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar: a compile-time constant if `value` is known, else a kernel argument; `constant`: in constant memory."""

    name: str
    dtype: DType
    value: int | float | bool | None = None
    constant: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory space and layout options of an array. With `space` None the generator chooses.

    `is_single_stage`: the spec says `stages: 1`, and leaves no other number to the generator. `dims` are the
    coordinates of a fetch from a texture: 1 of linear memory, 2 of pitched memory. `filter` is point, or linear where
    a fetch interpolates between elements. `load` and `store` are the cache operators of accesses in device memory.
    `allocation` is device, managed, or mapped for page-locked host memory that kernels address (zero-copy)."""

    space: str | None = None  # global shared constant register readonly texture scratch
    pad: int = 0
    swizzle: bool = False
    dynamic: bool = False
    stages: int = 1
    is_single_stage: bool = field(default=False, metadata=_HASHED_IF_SET)
    dims: int = field(default=1, metadata=_HASHED_IF_SET)
    filter: str = field(default="point", metadata=_HASHED_IF_SET)
    load: str = field(default="", metadata=_HASHED_IF_SET)
    store: str = field(default="", metadata=_HASHED_IF_SET)
    allocation: str = field(default="device", metadata=_HASHED_IF_SET)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Values:
    """The literal contents of an array, row-major and flat; `file` names the .npy they came from."""

    data: tuple[int | float | bool, ...]
    file: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A declared array, or an undeclared temporary (`is_temporary`; its dtype is then a compute type).

    `shape` and `strides` are integer trees over params; strides count elements and follow `layout` and `pitch`.
    `role`: input, output, inout (read and written), baked (`values`), or temporary (scratch, and undeclared names).
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    role: str
    strides: tuple[Expr, ...]
    memory: Memory = Memory()
    boundary: Boundary | None = None
    values: Values | None = None
    is_temporary: bool = False
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_filtered(self) -> bool:
        """Whether it is read between elements: by samples, never by reads."""
        return self.memory.filter == "linear"


@dataclass(frozen=True, slots=True)
class Statement:
    """`target[subscripts] = value` for every value of `indices`; `accumulate` for `+=`.

    `indices` are the free indices in order of their first appearance on the left, with their extents.
    `value.dtype` is the compute type of the target's element type; storing rounds to the element type.

    Of plans only: a statement that `is_partial` is for those elements alone that its target has, as of the tiles at its
    edges. `algorithm` names how a sum is computed that `accumulate` allows to be rounded otherwise, in all its steps.
    """

    target: str
    subscripts: tuple[Expr, ...]
    indices: tuple[Index, ...]
    value: Expr
    accumulate: bool = False
    text: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False)
    is_partial: bool = field(default=False, metadata=_HASHED_IF_SET)
    algorithm: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on params that must hold; `text` is what the user wrote."""

    condition: Expr
    text: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Options:
    """What a schedule asks of the compiler and of the launch, whatever the family.

    `unroll` maps the variables of loops, as the source names them, to unroll factors: 1 leaves a loop rolled, 0 unrolls
    it fully. `max_registers` bounds those of a thread, 0 doesn't. `carveout` is the share of an SM's L1 data cache that
    is preferred as shared memory, in percent; None leaves it to the driver. `bank_bytes` is the width of banks, 0 the
    default one."""

    unroll: tuple[tuple[str, int], ...] = ()
    max_registers: int = 0
    fast_math: bool = False
    carveout: int | None = None
    bank_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The user's schedule; None and empty mean that the generator chooses.

    `block`, `thread` and `step` map index names to sizes; `tunables` holds the family-specific keys, `options` those
    that any family takes; `spans` maps keys (`"block.m"`, `"family"`) to their locations.
    """

    family: str | None = None
    block: tuple[tuple[str, int], ...] = ()
    thread: tuple[tuple[str, int], ...] = ()
    step: tuple[tuple[str, int], ...] = ()
    tunables: tuple[tuple[str, int | str | bool], ...] = ()
    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False)
    options: Options = field(default=Options(), metadata=_HASHED_IF_SET)

    def span_of(self, key: str) -> Span:
        """The location of a key; NOWHERE if the schedule has none."""
        return dict(self.spans).get(key, NOWHERE)


@dataclass(frozen=True, slots=True)
class Check:
    """Limits that `cugen check` enforces; None means no limit. `by_array` are those of single arrays: (limit, array,
    value)."""

    bank_conflicts: float | None = None
    sectors: float | None = None
    occupancy: float | None = None
    spills: int | None = None
    local: int | None = field(default=None, metadata=_HASHED_IF_SET)
    mixed_warps: float | None = None
    allow_unknown: bool = False
    lanes: float | None = field(default=None, metadata=_HASHED_IF_SET)
    traffic: float | None = field(default=None, metadata=_HASHED_IF_SET)
    waves: float | None = field(default=None, metadata=_HASHED_IF_SET)
    grid: float | None = field(default=None, metadata=_HASHED_IF_SET)
    roofline: float | None = field(default=None, metadata=_HASHED_IF_SET)
    doubles: int | None = field(default=None, metadata=_HASHED_IF_SET)
    by_array: tuple[tuple[str, str, float], ...] = field(default=(), metadata=_HASHED_IF_SET)
    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False)

    def of_array(self, limit: str, array: str) -> float | None:
        """The limit on an array: its own, else that on all arrays."""
        values = (value for name, of, value in self.by_array if (name, of) == (limit, array))
        general: float | None = getattr(self, limit)
        return next(values, general)

    def is_set(self, *limits: str) -> bool:
        """Whether one of these limits is set, on all arrays or a single one."""
        return any(getattr(self, name) is not None or any(name == of for of, _, _ in self.by_array) for name in limits)


@dataclass(frozen=True, slots=True)
class Precision:
    """Lower precisions that the spec allows for sums of products, where kernels are faster with them.

    `tf32`: float32 operands may be rounded to tf32, 11 significant bits. `fp8`: `exact`, or
    `fast` where sums of float8 may stay in accumulators that keep fewer bits than float32. `winograd`: convolutions may
    be computed by Winograd's algorithm, whose sums are rounded otherwise."""

    tf32: bool = False
    fp8: str = "exact"
    winograd: bool = field(default=False, metadata=_HASHED_IF_SET)

    @property
    def is_fp8_fast(self) -> bool:
        return self.fp8 == "fast"


@dataclass(frozen=True, slots=True)
class Tuned:
    """The origin of tuned schedules: the entry for `device` in the lock `file`, measured by cugen `version`.

    `written` are the user's schedules; `refused` is the reason if the tuned ones were rejected."""

    file: str
    device: str
    version: str
    gain: str
    written: tuple[tuple[str, Schedule], ...]
    refused: str = ""

    @property
    def text(self) -> str:
        """A one-line description for reports."""
        if self.refused:
            return f"the generator's own: the one in {self.file} for {self.device} no longer fits ({self.refused})"
        return f"from {self.file}: {self.device}, {self.gain}"


@dataclass(frozen=True, slots=True, repr=False)
class Spec:
    """One kernel. `schedules` maps an output's name, or "" for all outputs, to its schedule."""

    kernel: str
    doc: str
    target: str
    params: tuple[Param, ...]
    scalars: tuple[Scalar, ...]
    arrays: tuple[Array, ...]
    statements: tuple[Statement, ...]
    require: tuple[Requirement, ...] = ()
    schedules: tuple[tuple[str, Schedule], ...] = ()
    check: Check = Check()
    variant: tuple[tuple[str, int | float | str | bool], ...] = ()
    is_choice: bool = field(default=False, metadata=_HASHED_IF_SET)  # of variants that differ in schedule or placement
    precision: Precision = field(default=Precision(), metadata=_HASHED_IF_SET)
    file: str = field(default="", compare=False)  # the file's name, without its folder
    text: str = field(default="", compare=False)  # the file's text, for quoting lines
    dependencies: tuple[str, ...] = field(default=(), compare=False)  # paths of the files that were read
    tuned: Tuned | None = field(default=None, compare=False)
    states_target: bool = field(default=True, compare=False)  # the file or the caller; else it is the default
    _hash: str = field(default="", init=False, compare=False)  # once it is asked for

    def __repr__(self) -> str:
        return f"<Spec {self.kernel} for {self.target}: {'; '.join(s.text for s in self.statements)}>"

    def array(self, name: str) -> Array:
        """The array of that name; StopIteration if there is none."""
        return next(a for a in self.arrays if a.name == name)

    def param(self, name: str) -> Param:
        """The param of that name; StopIteration if there is none."""
        return next(p for p in self.params if p.name == name)

    def scalar(self, name: str) -> Scalar:
        """The scalar of that name; StopIteration if there is none."""
        return next(s for s in self.scalars if s.name == name)

    def with_statements(self, statements: Sequence[Statement]) -> Spec:
        """The spec with other statements; the same object if these are the same objects."""
        is_same = len(statements) == len(self.statements) and all(map(is_, statements, self.statements))
        return self if is_same else replace(self, statements=tuple(statements))

    def for_device(self, capability: str) -> Spec:
        """The spec for a device of this compute capability, such as `sm_90`. One that states no target takes the
        device's architecture-specific one (`sm_90a`), if the default is of the same capability."""
        if self.states_target or self.target != capability:
            return self
        return replace(self, target=architecture_specific(capability))

    @property
    def path(self) -> str:
        """The path of the file, for diagnostics; its name where none was read."""
        return next((path for path in self.dependencies if os.path.basename(path) == self.file), self.file)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical spec: equal for equivalent specs, whatever their comments and file."""
        if not self._hash:
            digest = hashlib.sha256(json.dumps(canonical(self), sort_keys=True).encode()).hexdigest()
            object.__setattr__(self, "_hash", digest)
        return self._hash


@cache
def _compared_fields(kind: type[Any]) -> tuple[Field[Any], ...]:
    return tuple(f for f in fields(kind) if f.compare)


def _is_hashed(field: Field[Any], value: object) -> bool:
    return not field.metadata or not (field.metadata == _HASHED_IF_SET and getattr(value, field.name) == field.default)


def canonical(value: Any) -> Any:
    """A JSON value of the compared fields of a spec's dataclasses, without spans, texts and paths."""
    kind = type(value)
    if is_dataclass(kind):
        content = {f.name: canonical(getattr(value, f.name)) for f in _compared_fields(kind) if _is_hashed(f, value)}
        return {"is": kind.__name__, **content}
    if isinstance(value, tuple | list):
        return [canonical(item) for item in value]
    if isinstance(value, float):
        return value.hex()
    if hasattr(value, "value"):  # an Enum
        return value.value
    return value
