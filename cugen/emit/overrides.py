"""A user's own templates of families, in place of the package's: held to the plan like those."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cugen.emit.resources import data_folder

MAX_BYTES = 1 << 20  # of one template
_HASH_DIGITS = 16
_SUFFIX = ".cu.j2"
Templates = tuple[tuple[str, str], ...]  # file name and text, by name


class TemplateError(ValueError):
    """A user's template that can't be used: it is none of a family's, isn't Jinja2, or prints another program."""


def read_templates(folder: str | os.PathLike[str]) -> Templates:
    """The templates of a folder. TemplateError for files that override no family's, OSError for unreadable ones."""
    known = family_templates()
    templates = []
    for path in sorted(Path(folder).iterdir()):
        if path.name.endswith(".j2"):
            if path.name not in known:
                raise TemplateError(f"{path.name} overrides no family's template; these can be: {', '.join(known)}")
            content = path.read_bytes()
            if len(content) > MAX_BYTES:
                raise TemplateError(f"{path.name} has {len(content)} bytes; a template may have {MAX_BYTES}")
            try:
                templates.append((path.name, content.decode()))
            except UnicodeDecodeError:
                raise TemplateError(f"{path.name} isn't UTF-8") from None
    if not templates:
        raise TemplateError(f"no template in {os.fspath(folder)}; a family's is called, for example, {known[0]}")
    return tuple(templates)


def family_templates() -> tuple[str, ...]:
    """The names of the templates that extend `kernel.cu.j2`."""
    paths = sorted(data_folder("templates").glob(f"*{_SUFFIX}"))
    return tuple(path.name for path in paths if '{% extends "kernel.cu.j2" %}' in path.read_text(encoding="utf-8"))


def template_digest(text: str) -> str:
    """What the head of a .cu names a template by."""
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
