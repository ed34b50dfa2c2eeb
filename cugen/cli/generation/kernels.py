"""Kernels with their files, generated one after the other, in processes, or on a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import OWN_FAULT, Failure, failure_of, own_fault
from cugen.cli.generation.compiled import compiled, embedded, programs
from cugen.cli.generation.emission import Emission
from cugen.cli.parallel.scheduler import cluster_of
from cugen.cli.specs import refuse, templates_of, warn
from cugen.cli.text.terminal import note, paint_findings, progress
from cugen.emit import files
from cugen.emit.inputs import RemarksMode, input_hash, program_input_hash

if TYPE_CHECKING:
    from cugen.emit.host.variants import Entry
    from cugen.emit.overrides import Templates
    from cugen.spec.diagnostics import Diagnostic
    from cugen.spec.model import Spec


@dataclass(frozen=True, slots=True)
class Made:
    """Files of a kernel, and for a variant the data of its selecting launcher."""

    texts: files.Texts
    entry: Entry | None
    warnings: tuple[Diagnostic, ...] = ()
    compiled: tuple[files.File, ...] = ()


@dataclass(frozen=True, slots=True)
class _Failed:
    """An error as it is reported, which can be pickled: not all of cugen's exceptions can."""

    text: str
    status: int


@dataclass(frozen=True, slots=True)
class Work:
    """A spec, and the same for those of several targets that are architecture-specific."""

    spec: Spec
    specific: tuple[Spec, ...] = ()


_Result = Made | _Failed | tuple["Diagnostic", ...]


@dataclass(frozen=True, slots=True)
class Generated:
    """The kernels that were made, and internal errors by the names of the others."""

    made: Sequence[Made]
    faults: Mapping[str, str]

    def report(self) -> None:
        """Raises Failure if there are internal errors."""
        if self.faults:
            raise Failure("\n\n".join(self.faults.values()), OWN_FAULT)


def generate_all(work: Sequence[Work], options: Emission, args: argparse.Namespace) -> Generated:
    """Generates all kernels. Failure with all findings if one is rejected. An internal error at one doesn't keep the
    others from being made."""
    made: list[Made] = []
    faults: dict[str, str] = {}
    findings: list[Diagnostic] = []
    make = partial(
        _generate,
        remarks=args.remarks,
        templates=templates_of(args),
        options=options,
        folder=args.output,
        check=args.check,
        debug=args.debug,
    )
    results = progress(_results(work, args, make), len(work), "generating", quiet=args.quiet)
    for item, result in zip(work, results, strict=True):
        if isinstance(result, Made):
            made.append(result)
            warn(result.warnings, args)
        elif not isinstance(result, _Failed):
            findings += result
        elif result.status == OWN_FAULT:
            faults[item.spec.kernel] = result.text
        else:
            raise Failure(result.text, result.status)
    if findings:
        note(paint_findings("\n\n".join(faults.values()), sys.stderr))
    refuse(findings)
    return Generated(made, faults)


def _results(work: Sequence[Work], args: argparse.Namespace, make: Callable[[Work], _Result]) -> Iterator[_Result]:
    if args.scheduler and work:
        from cugen.cluster.mapping import mapped

        with cluster_of(args) as cluster:
            yield from mapped(cluster, make, work)
    elif args.jobs == 1 or len(work) < 2:
        yield from map(make, work)
    else:
        from cugen.cli.parallel.processes import in_processes

        yield from in_processes(make, work, args.jobs)


def _generate(
    work: Work,
    *,
    remarks: RemarksMode,
    templates: Templates,
    options: Emission,
    folder: Path,
    check: bool,
    debug: bool,
) -> _Result:
    """Generates one kernel, in a worker process. Errors are returned: one spec of several may be rejected."""
    from cugen.emit.host.variants import make_entry
    from cugen.kernel import generate
    from cugen.kernel_choice import block_cost
    from cugen.kernel_price import price_warnings
    from cugen.kernel_types import type_warnings
    from cugen.schedule.lock import refused_warning
    from cugen.spec.diagnostics import SpecError

    spec = work.spec
    try:
        kernel = generate(spec, remarks=remarks, templates=templates)
        specific = [generate(variant, remarks=remarks, templates=templates) for variant in work.specific]
        others = list(compiled(kernel, specific, options, folder))
        if "embed" in options.kinds:
            stamp = input_hash(spec, remarks=remarks, templates=templates)
            others += embedded(kernel, specific, stamp, options, folder, check=check)
        stamp = program_input_hash(spec, remarks=remarks, templates=templates)
        others += programs(kernel, stamp, options, folder)
    except SpecError as error:
        return error.diagnostics
    except Exception as error:
        location = f"{spec.dependencies[0]}, kernel `{spec.kernel}`"
        failure = failure_of(error) or own_fault(error, debug=debug, location=location)
        return _Failed(failure.text, failure.status)
    entry = None
    if spec.variant:
        cost = block_cost(kernel) if spec.is_choice else None
        entry = make_entry(kernel.context, kernel.plan, kernel.manifest, cost)
    warnings = refused_warning(kernel.spec)
    if remarks != "none":
        warnings += (*price_warnings(kernel), *type_warnings(kernel))
    texts = files.Texts(spec.kernel, kernel.source, kernel.header, kernel.manifest.to_json(), kernel.typed_header)
    return Made(texts, entry, warnings, tuple(others))
