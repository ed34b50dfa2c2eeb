"""The Jinja2 environment of the templates."""

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
    "mma": nodes.Mma,
    "copy": nodes.Copy,
    "commit_copies": nodes.CommitCopies,
    "await_copies": nodes.AwaitCopies,
    "fetch_block_id": nodes.FetchBlockId,
    "count_arrival": nodes.CountArrival,
    "load_block_id": nodes.LoadBlockId,
    "release_flag": nodes.ReleaseFlag,
    "spin_wait": nodes.AcquireSpinWait,
    "assign": nodes.Assign,
    "loop": nodes.For,
    "choice": nodes.If,
    "return_unless": nodes.ReturnUnless,
    "barrier": nodes.Barrier,
    "named_barrier": nodes.NamedBarrier,
    "cluster_barrier": nodes.ClusterBarrier,
    "declare": nodes.Declare,
    "comment": nodes.Comment,
}


class _InMemoryBytecode(jinja2.BytecodeCache):
    """Bytecode of the templates, shared by the environments of all kernels; compiling templates dominates otherwise."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self._code[bucket.key, bucket.checksum] = bucket.code


_BYTECODE = _InMemoryBytecode()


def template_folder() -> Path:
    return data_folder("templates")


def environment() -> jinja2.Environment:
    """An environment for the package's templates; undefined names are errors."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=_BYTECODE,
    )
    for name, kind in _TESTS.items():
        env.tests[name] = lambda node, kind=kind: isinstance(node, kind)
    return env


def bind(env: jinja2.Environment, printer: NodePrinter) -> jinja2.Environment:
    """The environment with the filters of one kernel's printer."""
    bound = env.overlay()
    bound.filters = dict(env.filters)
    for name in ("definition", "let", "load", "store", "accumulate", "copy", "assign", "declare", "condition"):
        bound.filters[name] = getattr(printer, name)
    for name in ("start", "mma", "fetch_block_id", "count_arrival", "load_block_id", "release_flag", "spin_wait"):
        bound.filters[name] = getattr(printer, name)
    bound.filters["named_barrier"] = printer.named_barrier
    bound.filters["loop_header"] = printer.loop
    bound.filters["negated"] = printer.negated
    bound.filters["remarks"] = printer.remarks
    return bound
