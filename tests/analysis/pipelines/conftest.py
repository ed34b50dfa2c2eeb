"""Kernels with pipelines, and faults planted in their plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import sympy

from cugen.analysis.pipelines.claims import PipelineProof
from cugen.analysis.pipelines.proof import prove_pipeline
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import For, If, Node, Section
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

Change = Callable[[Node], "tuple[Node, ...] | None"]  # what a node becomes; None: it stays


@lru_cache(maxsize=64)
def gemm(
    m: int | str = 4096,
    n: int | str = 4096,
    k: int | str = 4096,
    types: tuple[str, str] = ("bfloat16", "bfloat16"),
    layouts: str = "MK NK",
    schedule: str = "",
    batch: int = 0,
) -> Kernel:
    """The wgmma kernel of a GEMM; SpecError if the family refuses it."""
    a, b = layouts.split()
    of_batch, index = ("[P, ", "p, ") if batch else ("[", "")
    sizes = {"M": m, "N": n, "K": k} | ({"P": batch} if batch else {})
    operand, output = types
    shapes = {name: of_batch + ", ".join(axes) + "]" for name, axes in (("A", a), ("B", b), ("C", "MN"))}
    subscripts = {name: index + ", ".join(axes.lower()) for name, axes in (("A", a), ("B", b), ("C", "MN"))}
    sums = "\naccumulate: {type: float32, tf32: true}" if operand == "float32" else ""
    (spec,) = load_text(
        "cugen: 1\nkernel: product\ntarget: sm_90a\n"
        f"params: {{{', '.join(f'{name}: {size}' for name, size in sizes.items())}}}\n"
        "arrays:\n"
        + "".join(
            f"  {name}: {{shape: {shape}, dtype: {output if name == 'C' else operand}}}\n"
            for name, shape in shapes.items()
        )
        + f"compute: C[{subscripts['C']}] = sum(A[{subscripts['A']}] * B[{subscripts['B']}], k)\n"
        f"schedule: {{family: wgmma{', ' + schedule if schedule else ''}}}{sums}\n"
    )
    return make_plan(spec).kernels[-1]  # before it may be copies of operands with aligned rows


def nodes_of(kernel: Kernel, *kinds: type) -> list[Node]:
    """The nodes of these kinds, in source order."""

    def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
        for node in nodes:
            if isinstance(node, kinds):
                yield node
            yield from walk(_below(node))

    return list(walk(kernel.body))


def _below(node: Node) -> tuple[Node, ...]:
    match node:
        case For() | Section():
            return node.body
        case If():
            return (*node.then, *node.orelse)
    return ()


def changed(kernel: Kernel, change: Change) -> Kernel:
    """The kernel with its nodes changed, parents first."""

    def rewritten(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        result: list[Node] = []
        for node in nodes:
            made = change(node)
            for new in (node,) if made is None else made:
                match new:
                    case For() | Section():
                        new = replace(new, body=rewritten(new.body))
                    case If():
                        new = replace(new, then=rewritten(new.then), orelse=rewritten(new.orelse))
                result.append(new)
        return tuple(result)

    parts = tuple((name, rewritten(nodes)) for name, nodes in kernel.parts)
    return replace(kernel, parts=parts)


def nth(kernel: Kernel, kind: type, position: int, change: Change) -> Kernel:
    """The kernel with the change to one node of a kind."""
    count = -1

    def change_one(node: Node) -> tuple[Node, ...] | None:
        nonlocal count
        if not isinstance(node, kind):
            return None
        count += 1
        return change(node) if count == position else None

    return changed(kernel, change_one)


def with_subscripts(access: Access, first: Callable[[sympy.Expr], sympy.Expr]) -> Access:
    """The access with another first subscript."""
    return replace(access, subscripts=(first(access.subscripts[0]), *access.subscripts[1:]))


def with_expressions(node: Any, change: Callable[[sympy.Expr], sympy.Expr]) -> Any:
    """A node with all subscripts of its accesses changed."""
    accesses = {f.name: getattr(node, f.name) for f in fields(node) if isinstance(getattr(node, f.name), Access)}
    made = {name: replace(a, subscripts=tuple(map(change, a.subscripts))) for name, a in accesses.items()}
    return replace(node, **made)


def proof_of(kernel: Kernel) -> PipelineProof:
    proof = prove_pipeline(kernel)
    assert proof is not None
    return proof


def refuted(kernel: Kernel) -> list[str]:
    """The names of the refuted claims."""
    return [claim.name for claim in proof_of(kernel).claims if claim.verdict == "refuted"]
