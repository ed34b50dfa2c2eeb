"""The Jinja2 environment of the templates."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import jinja2
import jinja2.bccache
from jinja2.sandbox import SandboxedEnvironment

from cugen.emit.overrides import Templates
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


def environment(overrides: Templates = (), loader: jinja2.BaseLoader | None = None) -> jinja2.Environment:
    """An environment for the package's templates, or those of `loader`; `overrides` come first, and run
    in a sandbox. Undefined names are errors."""
    package = loader or jinja2.FileSystemLoader(template_folder())
    kind = SandboxedEnvironment if overrides else jinja2.Environment
    return kind(
        loader=jinja2.ChoiceLoader([jinja2.DictLoader(dict(overrides)), package]) if overrides else package,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=None if overrides else _BYTECODE,  # a sandbox compiles other code of the same text
    )
