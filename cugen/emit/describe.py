"""Head comments of generated files; text of users is escaped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from cugen.emit.layout import LINE_WIDTH, filled
from cugen.emit.overrides import template_digest
from cugen.emit.sizes import size
from cugen.machine import target
from cugen.machine.features import why_not_compiled
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.remarks import Remarks
from cugen.plan.traversal.walking import accesses
from cugen.spec.model import Array, Param
from cugen.version import __version__

_LINE_WIDTH = 112


def harmless(text: str) -> str:
    """Text without comment ends, line continuations and trigraphs."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return re.sub(r"\?\?(?=[=/'()!<>-])", "? ?", printable.replace("*/", "* /")).rstrip("\\ ").strip()


def heading(context: Context) -> str:
    spec = context.spec
    doc = harmless(" ".join(spec.doc.split()))
    return f"{spec.kernel}: {doc}" if doc else spec.kernel


def header_lines(context: Context, plan: Plan, remarks: Remarks | None = None) -> tuple[str, ...]:
    """Lines of the head comment: statements, arrays, launches and the analysis' summary."""
    spec = context.spec
    names = {expr.name: name for name, expr in context.symbols.items()}
    rows: list[tuple[str, str]] = []
    for position, statement in enumerate(context.original.statements):
        rows.append(("computes" if position == 0 else "", harmless(" ".join(statement.text.split()))))
    if spec.params:
        rows.append(("params", ", ".join(map(_param_text, spec.params))))
    if context.original.tuned is not None:
        rows.append(("schedule", harmless(context.original.tuned.text)))
    if purpose := why_not_compiled(target(spec.target)):
        rows.append(("target", purpose))
    used = {f"{kernel.family}.cu.j2" for kernel in plan.kernels}
    changed = [(name, text) for name, text in plan.templates if name in used]
    rows += [("template", f"{name} of the user, sha256 {template_digest(text)}") for name, text in changed]
    for declared in spec.arrays:
        if not declared.is_temporary:
            rows.append((declared.name, _array_line(declared, context, plan)))
    for kernel in plan.kernels:
        grid = ", ".join(str(size(extent, context.ranges, names)) for extent in kernel.grid)
        block = ", ".join(map(str, kernel.block))
        shared = kernel.shared_bytes + kernel.dynamic_shared_bytes
        kind = " dynamic" if kernel.dynamic_shared_bytes else ""
        text = f"grid ({grid}), block ({block})" + (f", clusters of {kernel.cluster}" if kernel.is_clustered else "")
        text += f", {shared} bytes of{kind} shared memory" if shared else ""
        rows.append((kernel.name if len(plan.kernels) > 1 else "launch", f"{text}; family {kernel.family}"))
    rows += [("accumulate", text) for text in (*plan.algorithms, *plan.unused_precisions)]
    remarks = remarks or Remarks()
    bounds = (remarks.bounds,) if remarks.bounds else ()
    for topic, said in (("pipeline", remarks.pipelines), ("bounds", bounds), ("analysis", remarks.summary)):
        rows += [(topic if position == 0 else "", line) for position, line in enumerate(said)]
    width = max((len(name) for name, _ in rows), default=0) + 2
    lines = []
    for name, text in rows:
        wrapped = filled(text, _LINE_WIDTH - width) or [""]
        lines.append((name.ljust(width) + wrapped[0]).rstrip("\\ "))
        lines += [(" " * width + line).rstrip("\\ ") for line in wrapped[1:]]
    return (*lines, "", origin(context))


def _param_text(param: Param) -> str:
    """`M = 64`, or of a dynamic param the values that the spec allows: `N (dynamic, 4 to 4096, multiples of 4)`."""
    if not param.is_dynamic:
        return f"{param.name} = {param.value}"
    everything = Param("", None)
    limits = ["dynamic"]
    if (param.minimum, param.maximum) != (everything.minimum, everything.maximum):
        limits.append(f"{param.minimum} to {param.maximum}")
    if param.multiple_of != everything.multiple_of:
        limits.append(f"multiples of {param.multiple_of}")
    return f"{param.name} ({', '.join(limits)})"


def origin(context: Context) -> str:
    """Line of the head comment that names the spec. cugen.emit.orphans reads it."""
    spec, digest = context.spec, context.original.hash[:16]
    file = harmless(spec.file) or "a spec"
    return f"Made by cugen {__version__} from {file} (hash {digest}) for {spec.target}. Edit the spec, not this file."


def ideal_accesses(claims: Sequence[tuple[str, str]], kernel: str = "") -> list[str]:
    """Lines of the head comment with the claims of accesses, each with the access as printed: one line for equal ones.
    `kernel` is named if the file has several."""
    if not claims:
        return []
    rows = [(text, f"{claim}, at {n} places" if n > 1 else claim) for (text, claim), n in Counter(claims).items()]
    # A long access doesn't widen the column beyond the line: its claim is on the next one.
    available = LINE_WIDTH - len("//   ") - len("  ") - max(len(claim) for _, claim in rows)
    width = max((len(text) for text, _ in rows if len(text) <= available), default=0)
    of_kernel = f" of {kernel}" if kernel else ""
    table = []
    for text, claim in rows:
        table += [f"  {text.ljust(width)}  {claim}"] if len(text) <= width else [f"  {text}", f"      {claim}"]
    return ["", f"Ideal accesses{of_kernel}, without a remark in the code:", *table]


def _operators(declared: Array) -> tuple[tuple[str, str], ...]:
    """The cache operators that the spec asks for, of loads and stores."""
    return ("ld", declared.memory.load), ("st", declared.memory.store)


def placement_text(declared: Array, plan: Plan) -> str:
    """The memory space of an array, if the spec or the planner chose one; of `readonly` memory with the loads:
    `readonly by load_readonly<4>`."""
    if declared.memory.allocation != "device":
        return f"{declared.memory.allocation} memory"
    space = declared.memory.space or ""
    if not space and plan.context.arrays[declared.name].space == "constant":
        return "constant, since all reads are uniform"
    if space == "texture" and declared.memory.dims == 2:
        return "2-D texture, filtered" if declared.is_filtered else "2-D texture"
    if space != "readonly":
        operators = (f"{kind}.global.{name}" for kind, name in _operators(declared) if name)
        return " by ".join(filter(None, (space, " and ".join(operators))))
    found = (access for kernel in plan.kernels for access in accesses(kernel.body))
    widths = sorted({a.width for a in found if a.array.name == declared.name and a.array.loads_readonly}, reverse=True)
    names = [f"load_readonly<{width}>" if width > 1 else "__ldg" for width in widths]
    return f"{space} by {' and '.join(names)}" if names else space


def _array_line(declared: Array, context: Context, plan: Plan) -> str:
    names = {expr.name: name for name, expr in context.symbols.items()}
    array = context.declared[declared.name]
    shape = ", ".join(str(size(extent, context.ranges, names)) for extent in array.shape)
    text = f"{declared.role}, {declared.dtype.name} [{shape}]"
    strides = [size(stride, context.ranges, names) for stride in array.strides]
    dense = 1
    for extent, stride in reversed(list(zip(array.shape, strides, strict=True))):
        if stride != dense:
            text += f", strides ({', '.join(map(str, strides))})"
            break
        extent_size = size(extent, context.ranges, names)
        if not isinstance(extent_size, int) or not isinstance(dense, int):
            break
        dense *= extent_size
    if placement := placement_text(declared, plan):
        text += f", {placement}"
    if declared.boundary is not None:
        mode = declared.boundary.mode
        text += f", outside: {declared.boundary.value if mode == 'value' else mode}"
    alignment = max((dict(kernel.alignments).get(declared.name, 0) for kernel in plan.kernels), default=0)
    if alignment > declared.dtype.bytes:
        text += f", aligned to {alignment} bytes"
    return text
