"""Loads specs: parses a file or a text to checked `Spec`s, or raises one `SpecError` with all diagnostics."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cugen.spec.diagnostics import Diagnostic, Reporter, SpecError
from cugen.spec.expressions import NOWHERE, Span
from cugen.spec.model import Spec
from cugen.spec.nearest import did_you_mean, nearest
from cugen.spec.parse.keys import MAX_KERNELS
from cugen.spec.parse.mappings import yaml_of
from cugen.spec.parse.nodes import MAX_BYTES, YamlMapping, YamlScalar, decode, parse, printable
from cugen.spec.parse.reading import first_line, shorten, wrong_type
from cugen.spec.resolve.document import build
from cugen.spec.resolve.keys.scope import Setting
from cugen.spec.variants import Expanded, expand

Source = str | os.PathLike[str] | Mapping[str, Any]

_TEXT, _MAPPING = "<text>", "<dict>"  # names of specs without a file


def load(
    source: Source,
    params: Mapping[str, Setting] | None = None,
    *,
    kernel: str | None = None,
    target: str | None = None,
) -> Spec:
    """The one kernel of a spec, or the one of several that `kernel` names.

    `source` is the path of a spec file; a text with a newline that names no file is a spec itself, and a mapping one
    with the same keys.
    `params` overrides its values of params and scalars. A dynamic param stays dynamic: its value is only checked
    (it is for the run). SpecError holds all diagnostics of the spec.
    """
    specs = _load_source(source, params, kernel, target)
    if len(specs) > 1:
        names = ", ".join(spec.kernel for spec in specs[:20]) + (", …" if len(specs) > 20 else "")
        raise _failure(
            _name_of(source),
            "CG1050",
            f"the file has {len(specs)} kernels: {names}",
            help="choose one with `--kernel NAME`, or load all of them with `load_all`",
        )
    return specs[0]


def load_all(
    source: Source, params: Mapping[str, Setting] | None = None, *, target: str | None = None
) -> tuple[Spec, ...]:
    """All kernels of a spec, in the order of its documents, the last variant varying fastest.

    `source`, `params` and errors as for `load`."""
    return _load_source(source, params, None, target)


def load_text(
    text: str,
    *,
    file: str = "spec.yaml",
    folder: Path | None = None,
    params: Mapping[str, Setting] | None = None,
    target: str | None = None,
) -> tuple[Spec, ...]:
    """All kernels of a text; `file` is its name in diagnostics, `folder` the base of the paths that it names."""
    return _load(text, file, folder, params or {}, None, target)


def _name_of(source: Source) -> str:
    """The name of a spec in diagnostics."""
    if isinstance(source, Mapping):
        return _MAPPING
    is_text = isinstance(source, str) and "\n" in source and not os.path.isfile(source)
    return _TEXT if is_text else os.fspath(source)


def _load_source(
    source: Source, params: Mapping[str, Setting] | None, kernel: str | None, target: str | None
) -> tuple[Spec, ...]:
    name = _name_of(source)
    if isinstance(source, Mapping):
        return _load(yaml_of(source, name), name, None, params or {}, kernel, target)
    if isinstance(source, str) and name == _TEXT:
        return _load(source, name, None, params or {}, kernel, target)
    return _load_file(source, params, kernel, target)


def _load_file(
    path: str | os.PathLike[str], params: Mapping[str, Setting] | None, kernel: str | None, target: str | None
) -> tuple[Spec, ...]:
    name = os.fspath(path)
    try:
        if not name:
            raise _failure(name, "CG1001", "the path of a spec is empty", help="name a file")
        if not Path(path).is_file():
            raise _failure(name, "CG1001", f"`{name}` can't be read: {_fault(Path(path))}", help=_path_help(Path(path)))
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise _failure(name, "CG1001", f"`{name}` can't be read: {reason}", help="check the path") from None
    report = Reporter(name)
    text = decode(content, report)
    if text is None:
        raise SpecError(report.diagnostics)
    specs = _load(text, name, Path(path).parent, params or {}, kernel, target)
    return tuple(replace(spec, dependencies=(name, *spec.dependencies)) for spec in specs)


def _fault(path: Path) -> str:
    """Why a path is no file."""
    if path.is_dir():
        return "it is a folder"
    return "it is a pipe or a device" if path.exists() else "there is no such file"


def _path_help(path: Path) -> str:
    """What to write in place of a path that is no file."""
    if path.is_dir():
        return f"name its files, as in `{path / '*.yaml'}`"
    if path.exists():
        return "write the spec to a file, and name that"
    siblings = [sibling.name for sibling in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    similar = next((f"{path.name}{end}" for end in (".yaml", ".yml") if f"{path.name}{end}" in siblings), None)
    similar = similar or nearest(path.name, sorted(siblings))
    return f"did you mean `{printable(str(path.with_name(similar)))}`?" if similar else "check the path"


def _failure(file: str, code: str, message: str, *, help: str) -> SpecError:
    return SpecError([Diagnostic(code, message, file, NOWHERE, help=help)])


def _load(
    text: str,
    file: str,
    folder: Path | None,
    params: Mapping[str, Setting],
    kernel: str | None,
    target: str | None,
) -> tuple[Spec, ...]:
    report = Reporter(file, printable(text))
    kernels = _kernels(text, report)
    chosen = _choose(kernels, kernel, report)
    _check_settings(params, chosen, report)
    specs: list[Spec] = []
    for expanded in chosen:
        part = Reporter(file, printable(text)) if expanded.variant else report
        spec = build(expanded, part, settings=_known_settings(params, expanded), target=target, folder=folder)
        if part is not report:
            _merge(part, expanded, report)
        if spec is not None:
            specs.append(spec)
    report.raise_if_failed()
    text = text.removeprefix("\ufeff")
    return tuple(replace(s, file=Path(file).name, text=text, dependencies=_files(s, folder)) for s in specs)


def _kernels(text: str, report: Reporter) -> list[Expanded]:
    """The kernels of all documents, including those without a name or with a duplicate one."""
    result: list[Expanded] = []
    documents = parse(text, report)
    for document in documents:
        if isinstance(document, YamlMapping):
            result += expand(document, report)
            if len(result) > MAX_KERNELS:
                _too_many(document, report)
                return []
        elif isinstance(document, YamlScalar) and document.value is None:
            _empty(document.span, report)
        else:
            wrong_type(document, "a mapping", report, key="", help="start with `cugen: 1` and `kernel:`")
    if not documents and not report.failed:
        _empty(NOWHERE, report)
    _check_names(result, report)
    return result


def _too_many(document: YamlMapping, report: Reporter) -> None:
    report.error(
        "CG1046",
        f"a file has at most {MAX_KERNELS} kernels, all variants of all documents counted",
        first_line(document),
        label="the last of them are here",
        help="split it into several files",
    )


def _empty(span: Span, report: Reporter) -> None:
    report.error("CG1010", "there is no spec here", span, label="empty", help="start with `cugen: 1` and `kernel:`")


def _name(expanded: Expanded) -> str | None:
    entry = expanded.document.get("kernel")
    if entry is None or not isinstance(entry.value, YamlScalar) or not isinstance(entry.value.value, str):
        return None
    return entry.value.value + expanded.suffix


def _check_names(kernels: Sequence[Expanded], report: Reporter) -> None:
    seen: dict[str, int] = {}
    for expanded in kernels:
        name, entry = _name(expanded), expanded.document.get("kernel")
        if name is None or entry is None:
            continue
        if name in seen:
            report.error(
                "CG1048",
                f"two kernels are called `{name}`",
                first_line(entry.value),
                key="kernel",
                label="second of that name",
                notes=(f"the first is in line {seen[name]}",),
                help="give each document another `kernel`, and list each variant's value once",
            )
        else:
            seen[name] = entry.value.span.line


def _choose(kernels: Sequence[Expanded], kernel: str | None, report: Reporter) -> Sequence[Expanded]:
    if kernel is None:
        return kernels
    chosen = [expanded for expanded in kernels if _name(expanded) == kernel]
    if not chosen and not report.failed:
        names = [name for name in map(_name, kernels) if name is not None]
        help = did_you_mean(kernel, names, what="kernels")
        report.error("CG1051", f"the file has no kernel `{kernel}`", NOWHERE, key="--kernel", help=help)
    return chosen


def _settable(expanded: Expanded) -> list[str]:
    names: list[str] = []
    for key in ("params", "scalars"):
        entry = expanded.document.get(key)
        if entry is not None and isinstance(entry.value, YamlMapping):
            names += [item.name for item in entry.value.entries]
    return names


def _known_settings(params: Mapping[str, Setting], expanded: Expanded) -> dict[str, Setting]:
    names = _settable(expanded)
    return {name: _to_python_int(value) for name, value in params.items() if name in names}


def _to_python_int(value: Setting) -> Setting:
    """A NumPy integer as a Python int; other values unchanged."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value


def _check_settings(params: Mapping[str, Setting], kernels: Sequence[Expanded], report: Reporter) -> None:
    """Reports settings whose name no kernel declares."""
    if not kernels:
        return
    known = list(dict.fromkeys(name for expanded in kernels for name in _settable(expanded)))
    for name in params:
        if name not in known:
            help = did_you_mean(name, known, what="params and scalars")
            message = f"`{name}` can't be set: the spec has no param or scalar of that name"
            report.error("CG1022", message, NOWHERE, key=f"--set {name}", help=help)


def _merge(part: Reporter, expanded: Expanded, report: Reporter) -> None:
    """Adds a variant's diagnostics, except duplicates of another variant's at the same span."""
    seen = {(d.code, d.span, d.key) for d in report.diagnostics}
    choice = ", ".join(f"{name} = {shorten(str(value))}" for name, value in expanded.variant)
    for d in part.diagnostics:
        if (d.code, d.span, d.key) not in seen:
            report.diagnostics.append(replace(d, notes=(*d.notes, f"in the variant {choice}")))


def _files(spec: Spec, folder: Path | None) -> tuple[str, ...]:
    names = dict.fromkeys(a.values.file for a in spec.arrays if a.values is not None and a.values.file is not None)
    return tuple(str((folder or Path()) / name) for name in names)
