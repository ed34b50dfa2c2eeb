"""Cache operators that a spec asks for, and accesses that can't have them."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.machine.features import CACHE_OPERATORS
from cugen.machine.target import Target
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Copy
from cugen.plan.request import Refusal
from cugen.plan.traversal.walking import accesses, walk_nodes
from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Spec


def check_cache_operators(spec: Spec, target: Target, report: Reporter) -> None:
    """Reports operators of targets without them, of loads from outputs, and of stores to inputs."""
    unread, unwritten = ("output",), ("input", "baked")
    for array in spec.arrays:
        for name, operator, lacking in (("load", array.memory.load, unread), ("store", array.memory.store, unwritten)):
            key = f"arrays.{array.name}.memory.{name}"
            if operator and (reason := CACHE_OPERATORS.why_not(target)):
                help = f"remove `{name}`, or choose a target from {CACHE_OPERATORS.first} on"
                report.error("CG3104", f"`{key}`: {reason}", array.memory.span, key=key, help=help)
            elif operator and array.role in lacking:
                what = "nothing loads from" if name == "load" else "no statement stores to"
                report.error(
                    "CG2110",
                    f"{what} `{array.name}`, and `{name}: {operator}` is for that",
                    array.memory.span,
                    key=key,
                    help=f"remove `{name}`",
                )


def uncached_accesses(kernel: Kernel) -> Iterator[Refusal]:
    """Why accesses of a kernel can't have the operator of their array: asynchronous copies have none."""
    sources = [node.source for node in walk_nodes(kernel.body) if isinstance(node, Copy) and node.asynchronous]
    sources += [access for access in accesses(kernel.body) if access.array.space == "tensor"]
    for array in dict.fromkeys(access.array for access in sources):
        for name, operator in (("load", array.load_operator), ("store", array.store_operator)):
            if operator and (name == "load" or array.space == "tensor"):
                reason = f"copies {array.name} asynchronously, without a cache operator"
                yield Refusal(reason, f"arrays.{array.name}.memory.{name}")
