"""Builds one `Spec` from one YAML document with variants substituted; checks every key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cugen import machine as targets
from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import NOWHERE, Expr, Span
from cugen.spec.model import Check, Requirement, Scalar, Schedule, Spec
from cugen.spec.parse import grammar
from cugen.spec.parse.keys import (
    DEFAULT_TARGET,
    FORMAT_VERSION,
    MAX_NAME,
    MAX_REQUIREMENTS,
    MAX_STATEMENTS,
    REQUIRED_KEYS,
    TOP_KEYS,
)
from cugen.spec.parse.names import kernel_name_problem
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlScalar, YamlSequence
from cugen.spec.parse.reading import (
    describe,
    first_line,
    join,
    read_keys,
    read_mapping,
    read_text,
    wrong_type,
)
from cugen.spec.parse.syntax import NameNode, StatementNode, SubscriptNode, walk
from cugen.spec.prove.guards import alternatives
from cugen.spec.prove.requirements import assumed
from cugen.spec.resolve import resolve
from cugen.spec.resolve.declarations import Declarations
from cugen.spec.resolve.keys.accumulate import read_accumulate
from cugen.spec.resolve.keys.arrays import read_arrays
from cugen.spec.resolve.keys.check import read_check
from cugen.spec.resolve.keys.memory import check_constant_memory
from cugen.spec.resolve.keys.params import read_params
from cugen.spec.resolve.keys.scalars import read_scalars
from cugen.spec.resolve.keys.schedule import read_schedules
from cugen.spec.resolve.keys.scope import Scope, Setting
from cugen.spec.variants import Expanded

_CAPABILITY = re.compile(r"[0-9]{2,3}a?$")


def build(
    expanded: Expanded,
    report: Reporter,
    *,
    settings: Mapping[str, Setting],
    target: str | None,
    folder: Path | None,
) -> Spec | None:
    """The checked spec of one kernel, or None after reporting errors.

    `settings` override values of params and scalars, `target` the file's target; paths under `values` are relative to
    `folder`."""
    before = len(report.diagnostics)
    entries = read_keys(expanded.document, TOP_KEYS, report, key="", required=REQUIRED_KEYS) or {}
    _check_version(entries.get("cugen"), report)
    kernel = _read_kernel(entries.get("kernel"), expanded.suffix, report)
    doc = read_text(entries["doc"].value, report, key="doc") if "doc" in entries else None
    target_name = _read_target(entries.get("target"), target, report)

    scope = Scope(report, settings)
    declarations = _read_declarations(entries, scope, folder)
    require = _read_requirements(entries["require"].value, scope) if "require" in entries else ()
    require = _with_implied(require, scope)
    statements = _read_statements(entries["compute"].value, report) if "compute" in entries else None
    indices = None if statements is None else _indices(statements, declarations)
    schedules: tuple[tuple[str, Schedule], ...] = ()
    if "schedule" in entries:
        schedules = read_schedules(entries["schedule"].value, indices, report)
    arrays = None
    if declarations is not None:
        arrays = (*(array.name for array in declarations.arrays), *declarations.broken)
    check = read_check(entries["check"].value, arrays, report) if "check" in entries else Check()
    if declarations is None or statements is None or "arrays" not in entries:
        return None
    check_constant_memory(declarations.arrays, declarations.scalars, scope)
    resolution = resolve.resolve_compute(declarations, statements, report, require)
    if resolution is None:
        return None
    if len(report.diagnostics) > before:
        return None
    return Spec(
        kernel=kernel,
        doc=(doc or "").strip(),
        target=target_name,
        params=declarations.params,
        scalars=declarations.scalars,
        arrays=resolution.arrays,
        statements=resolution.statements,
        require=require,
        schedules=schedules,
        check=check,
        variant=expanded.variant,
        is_choice=expanded.is_choice,
        precision=declarations.precision,
        states_target=target is not None or "target" in entries,
    )


def _check_version(entry: Entry | None, report: Reporter) -> None:
    if entry is None:
        return
    value = entry.value.value if isinstance(entry.value, YamlScalar) else None
    if value is True or value != FORMAT_VERSION or not isinstance(value, int):
        report.error(
            "CG1012",
            f"this is version {FORMAT_VERSION} of the format, not {describe(entry.value)}",
            first_line(entry.value),
            key="cugen",
            label="unknown version",
            help=f"write `cugen: {FORMAT_VERSION}`",
        )


def _read_kernel(entry: Entry | None, suffix: str, report: Reporter) -> str:
    name = None if entry is None else read_text(entry.value, report, key="kernel")
    if entry is None or name is None:
        return ""
    problem = kernel_name_problem(name)
    if problem is None and len(name + suffix) > MAX_NAME:
        problem = (
            f"with its variants it has {len(name + suffix)} characters; at most {MAX_NAME} are allowed",
            "shorten it",
        )
    if problem is not None:
        report.error(
            "CG1016",
            f"a kernel can't be called `{name[:MAX_NAME]}`: {problem[0]}",
            first_line(entry.value),
            key="kernel",
            label="this name",
            help=problem[1],
        )
    return name + suffix


def _read_target(entry: Entry | None, override: str | None, report: Reporter) -> str:
    """The canonical name of the target: the caller's, else the file's, else the default. Checks both."""
    name = DEFAULT_TARGET
    if entry is not None:
        if not isinstance(entry.value, YamlScalar) or entry.value.value is None:
            wrong_type(entry.value, "a target such as `sm_90`", report, key="target")
        else:
            name = entry.value.string
            _check_target(name, first_line(entry.value), report, key="target")
    if override is not None:
        name = override
        _check_target(name, NOWHERE, report, key="--target")
    return targets.canonical_name(name)


def _check_target(name: str, span: Span, report: Reporter, *, key: str) -> None:
    if targets.is_known(name):
        return
    report.error(
        "CG1049",
        f"there is no target `{name[:MAX_NAME]}`",
        span,
        key=key,
        label="unknown target",
        help=_target_help(name),
    )


def _target_help(name: str) -> str:
    """What to write for an unknown target: for `H100`, `90`, `sm90` and `compute_90` the target that is meant."""
    try:
        return f"did you mean `{targets.device(name).target}`?"
    except targets.UnknownDevice:
        meant = f"sm_{match[0]}" if (match := _CAPABILITY.search(name)) else ""
    if targets.is_known(meant):
        return f"did you mean `{meant}`?"
    return f"known targets: {', '.join(targets.known_targets())}"


def _read_declarations(entries: Mapping[str, Entry], scope: Scope, folder: Path | None) -> Declarations | None:
    """The symbol table for the statements; None if a section is malformed, so that statements aren't resolved."""
    valid = True
    if "params" in entries:
        read_params(entries["params"].value, scope)
        valid = isinstance(entries["params"].value, YamlMapping)
    scalars: list[Scalar] = []
    if "scalars" in entries:
        scalars = read_scalars(entries["scalars"].value, scope)
        valid = valid and isinstance(entries["scalars"].value, YamlMapping)
    arrays = read_arrays(entries["arrays"].value, scope, folder) if "arrays" in entries else []
    indices: list[tuple[str, Expr, Span]] = []
    if "indices" in entries:
        valid = _read_indices(entries["indices"].value, scope, indices) and valid
    accumulate, precision = read_accumulate(entries.get("accumulate"), scope.report)
    if not valid or ("arrays" in entries and not arrays and not scope.broken):
        return None
    broken = tuple(sorted(scope.broken))
    declared = tuple(scope.params), tuple(scalars), tuple(arrays), tuple(indices)
    return Declarations(*declared, accumulate, precision, broken)


def _read_indices(node: YamlNode, scope: Scope, indices: list[tuple[str, Expr, Span]]) -> bool:
    index_entries = read_mapping(node, scope.report, key="indices")
    for entry in index_entries or ():
        key = join("indices", entry.name)
        if not scope.declare(entry.key, "an index", key=key):
            continue
        extent = scope.integer(entry.value, key=key)
        size = None if extent is None else scope.static(extent)
        if size is not None and size < 1:
            scope.report.error(
                "CG1026",
                f"the extent is {size}; an index has at least one value",
                first_line(entry.value),
                key=key,
                label=f"this is {size}",
                help="make it positive",
            )
            extent = None
        if extent is None:
            scope.mark_broken((entry.name,))
        else:
            indices.append((entry.name, extent, entry.key.span))
    return index_entries is not None


def _with_implied(require: tuple[Requirement, ...], scope: Scope) -> tuple[Requirement, ...]:
    """The requirements, and those of arrays that don't follow from them."""
    params = {param.name: param for param in scope.params}
    for implied in scope.implied:
        known = assumed(require, params)
        ((fact,),) = alternatives(implied.condition, True, known.params)
        if not known.implies(fact):
            require = (*require, implied)
    return require


def _read_requirements(node: YamlNode, scope: Scope) -> tuple[Requirement, ...]:
    """The conditions; reports those that the values of the params violate."""
    if not isinstance(node, YamlSequence):
        wrong_type(node, "a list of conditions", scope.report, key="require", help="write `[C % G == 0]`")
        return ()
    if len(node.items) > MAX_REQUIREMENTS:
        scope.report.error(
            "CG1004",
            f"{len(node.items)} conditions; a kernel has at most {MAX_REQUIREMENTS}",
            first_line(node.items[MAX_REQUIREMENTS]),
            key="require",
            label="one too many",
            help="join conditions by `and`",
        )
        return ()
    result: list[Requirement] = []
    for position, item in enumerate(node.items):
        key = f"require[{position}]"
        tree = scope.parse(item, key=key, expected="a condition on params")
        condition = None if tree is None else resolve.resolve_condition(tree, scope.params, scope.report, key=key)
        if condition is None or not isinstance(item, YamlScalar):
            continue
        values = scope.values
        for param in scope.params:
            if param.is_dynamic and isinstance(scope.settings.get(param.name), int):
                values[param.name] = int(scope.settings[param.name])
        if _holds(condition, values) is False:
            used = (
                [part.name for part in walk(tree) if isinstance(part, NameNode) and part.name in values] if tree else []
            )
            scope.report.error(
                "CG1024",
                f"the requirement `{item.string}` doesn't hold",
                first_line(item),
                key=key,
                label="not met",
                notes=tuple(f"{name} = {values[name]}" for name in dict.fromkeys(used)),
                help="choose other values for the params",
            )
        result.append(Requirement(condition, item.string.strip(), item.span))
    return tuple(result)


def _holds(condition: Expr, values: Mapping[str, int]) -> bool | None:
    """Whether a condition holds; None if it depends on a dynamic param without a value."""
    try:
        return resolve.holds(condition, values)
    except KeyError:
        return None


def _read_statements(node: YamlNode, report: Reporter) -> list[StatementNode] | None:
    """The statements of a text or of a list of texts; None after reporting an error."""
    before = len(report.diagnostics)
    items = node.items if isinstance(node, YamlSequence) else (node,)
    statements: list[StatementNode] = []
    for position, item in enumerate(items[: MAX_STATEMENTS + 1]):
        key = f"compute[{position}]" if isinstance(node, YamlSequence) else "compute"
        if not isinstance(item, YamlScalar) or not isinstance(item.value, str):
            wrong_type(item, "a statement", report, key=key, help="write `C[m, n] = ...`")
            continue
        statements += grammar.parse_statements(item.text_up_to(grammar.MAX_CHARACTERS + 1), report)
    if len(statements) > MAX_STATEMENTS:
        report.error(
            "CG1106",
            f"{max(len(statements), len(items))} statements; a kernel has at most {MAX_STATEMENTS}",
            statements[MAX_STATEMENTS].span,
            key="compute",
            label="one too many",
            help="split the spec into several kernels",
        )
    if not statements and len(report.diagnostics) == before:
        report.error(
            "CG1054",
            "nothing is computed",
            first_line(node),
            key="compute",
            label="no statement",
            help="write a statement such as `y[n] = x[n]`",
        )
    return statements if len(report.diagnostics) == before else None


def _indices(statements: list[StatementNode], declarations: Declarations | None) -> dict[str, list[str]] | None:
    """Maps each target to the indices of its statements: names that are neither declared nor a temporary."""
    if declarations is None:
        return None
    declared = {array.name for array in declarations.arrays}
    declared |= {param.name for param in declarations.params} | {scalar.name for scalar in declarations.scalars}
    declared |= {_target(statement) for statement in statements} | set(declarations.broken)
    result: dict[str, list[str]] = {}
    for statement in statements:
        names = result.setdefault(_target(statement), [])
        for root in (statement.target, statement.value):
            for part in walk(root):
                if isinstance(part, NameNode) and part.name not in declared and part.name not in names:
                    names.append(part.name)
    return result


def _target(statement: StatementNode) -> str:
    target = statement.target
    return target.array if isinstance(target, SubscriptNode) else target.name
