"""The Jinja2 environment: strict about names, C to the eye, and without any decision of its own."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import jinja2
import jinja2.bccache

from cugen.emit.nodes import NodePrinter
from cugen.emit.resources import data_folder
from cugen.plan import ir

_TESTS = {
    "define": ir.Define,
    "start": ir.Start,
    "let": ir.Let,
    "load": ir.Load,
    "store": ir.Store,
    "accumulate": ir.Accumulate,
    "multiply_tiles": ir.MultiplyTiles,
    "copy": ir.Copy,
    "commit_copies": ir.CommitCopies,
    "await_copies": ir.AwaitCopies,
    "take_ticket": ir.TakeTicket,
    "ticket": ir.Ticket,
    "publish": ir.Publish,
    "await": ir.Await,
    "assign": ir.Assign,
    "loop": ir.For,
    "choice": ir.If,
    "return_unless": ir.ReturnUnless,
    "barrier": ir.Barrier,
    "cluster_barrier": ir.ClusterBarrier,
    "declare": ir.Declare,
    "comment": ir.Comment,
}


class _Compiled(jinja2.BytecodeCache):
    """The templates' code, by their text: each kernel has an environment of its own, and most of the time that making a
    kernel takes would go into compiling the same templates again."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self._code[bucket.key, bucket.checksum] = bucket.code


_COMPILED = _Compiled()


def template_folder() -> Path:
    return data_folder("templates")


def environment() -> jinja2.Environment:
    """Templates from the package's folder; undefined names are errors."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=_COMPILED,
    )
    for name, kind in _TESTS.items():
        found.tests[name] = lambda node, kind=kind: isinstance(node, kind)
    return found


def bind(env: jinja2.Environment, printer: NodePrinter) -> jinja2.Environment:
    """The environment with the filters of one kernel."""
    bound = env.overlay()
    bound.filters = dict(env.filters)
    for name in ("definition", "let", "load", "store", "accumulate", "copy", "assign", "declare", "condition"):
        bound.filters[name] = getattr(printer, name)
    for name in ("start", "multiply_tiles", "take_ticket", "ticket", "publish", "awaited"):
        bound.filters[name] = getattr(printer, name)
    bound.filters["loop_header"] = printer.loop
    bound.filters["negated"] = printer.negated
    bound.filters["remarks"] = printer.remarks
    return bound
