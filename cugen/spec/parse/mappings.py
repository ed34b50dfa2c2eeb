"""A spec that is a mapping in Python, as the text of a file with the same content: diagnostics quote its lines."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import yaml

from cugen.spec.diagnostics import Diagnostic, SpecError
from cugen.spec.expressions import NOWHERE
from cugen.spec.parse.nodes import MAX_DEPTH

_YAML_1_1_BOOLS = "yYnNoO"  # first letters of yes, no, on and off, which are texts in a spec


def yaml_of(mapping: Mapping[Any, Any], file: str) -> str:
    """The YAML of a spec. Tuples and NumPy arrays are lists there, NumPy's numbers those of Python.

    SpecError for values that a spec doesn't have; `file` is its name in diagnostics."""
    findings: list[Diagnostic] = []
    content = _plain(mapping, "", 0, file, findings)
    if findings:
        raise SpecError(findings)
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None))


def _plain(value: Any, key: str, depth: int, file: str, findings: list[Diagnostic]) -> Any:
    """The value in types of YAML; None after reporting one without such a type."""
    if depth > MAX_DEPTH:
        message = f"this is nested deeper than {MAX_DEPTH} levels"
        findings.append(Diagnostic("CG1004", message, file, NOWHERE, key=key, help="flatten it"))
        return None
    if isinstance(value, Mapping):
        return {
            str(name): _plain(item, f"{key}.{name}".lstrip("."), depth + 1, file, findings)
            for name, item in value.items()
        }
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item, f"{key}[{n}]", depth + 1, file, findings) for n, item in enumerate(value)]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    try:
        return operator.index(value)
    except TypeError:
        message = f"`{key}` is a Python object of type {type(value).__name__}, which a spec can't hold"
        cure = "give a text, a number, a bool, a list or a dict"
        findings.append(Diagnostic("CG1015", message, file, NOWHERE, key=key, help=cure))
        return None


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and each item where it is, without anchors."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own attribute)
        first: [(tag, pattern) for tag, pattern in known if first not in _YAML_1_1_BOOLS or not tag.endswith(":bool")]
        for first, known in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:
        """No item refers to another."""
        return True

    def represent_text(self, data: str) -> yaml.ScalarNode:
        """A text, as a block if it has several lines."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_text)
