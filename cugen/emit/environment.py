"""The Jinja2 environment of the templates."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import jinja2
import jinja2.bccache

from cugen.emit.resources import data_folder


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
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=_BYTECODE,
    )
