"""The Jinja2 environment: strict about names, C to the eye, and without any decision of its own."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import jinja2
import jinja2.bccache

from cugen.emit.printer.nodes import NodePrinter
from cugen.emit.resources import data_folder
from cugen.plan import memory, nodes

_TESTS = {
    "define": nodes.Define,
    "start": memory.Start,
    "let": nodes.Let,
    "load": nodes.Load,
    "store": nodes.Store,
    "accumulate": nodes.Accumulate,
    "multiply_tiles": nodes.MultiplyTiles,
    "copy": nodes.Copy,
    "commit_copies": nodes.CommitCopies,
    "await_copies": nodes.AwaitCopies,
    "take_ticket": nodes.TakeTicket,
    "arrive": nodes.Arrive,
    "ticket": nodes.Ticket,
    "publish": nodes.Publish,
    "await": nodes.Await,
    "assign": nodes.Assign,
    "loop": nodes.For,
    "choice": nodes.If,
    "return_unless": nodes.ReturnUnless,
    "barrier": nodes.Barrier,
    "team_barrier": nodes.TeamBarrier,
    "cluster_barrier": nodes.ClusterBarrier,
    "declare": nodes.Declare,
    "comment": nodes.Comment,
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
    for name in ("start", "multiply_tiles", "take_ticket", "arrive", "ticket", "publish", "awaited", "team_barrier"):
        bound.filters[name] = getattr(printer, name)
    bound.filters["loop_header"] = printer.loop
    bound.filters["negated"] = printer.negated
    bound.filters["remarks"] = printer.remarks
    return bound
