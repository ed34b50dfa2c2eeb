"""`cugen.analyze`: the cost of every memory access of a kernel, and the facts of its launches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cugen.analysis.bounds.claims import BoundsClaim, bounds_summary
from cugen.analysis.bounds.proof import prove_bounds
from cugen.analysis.hardware.dram import dram_sentences
from cugen.analysis.hardware.unit_latencies import unit_latency_sentences
from cugen.analysis.launches.facts import BranchFacts, Facts, facts
from cugen.analysis.launches.launch import Resources
from cugen.analysis.launches.local_memory import settled_accesses
from cugen.analysis.launches.sentences import Sentence, sentences
from cugen.analysis.pipelines.claims import PipelineProof
from cugen.analysis.pipelines.proof import prove_pipeline
from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.analysis.verdicts.report import AccessReport
from cugen.emit.printer.nodes import NodePrinter
from cugen.kernel import Kernel, generate
from cugen.machine import Device, Target
from cugen.machine import device as known_device
from cugen.machine.target import Cache
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.nodes import AcquireSpinWait, Copy, For, If, Load, ReturnUnless
from cugen.spec.expressions import Op, Select
from cugen.spec.model import Spec


@dataclass(frozen=True, repr=False)
class LaunchReport:
    """One launch: its accesses in source order, and its facts.

    With a param without a value, accesses have their worst request but no totals; `facts.unknown` names the param.
    """

    kernel: str
    accesses: tuple[AccessReport, ...]
    facts: Facts
    branches: tuple[str, ...]  # texts of the facts' branches
    pipeline: PipelineProof | None = None  # of a kernel with mbarriers
    bounds: tuple[BoundsClaim, ...] = ()  # of all accesses, those of registers and mbarriers, too

    def __repr__(self) -> str:
        verdicts = Counter(access.verdict for access in self.accesses)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        return f"<LaunchReport {self.kernel}: {len(self.accesses)} accesses, {counts}>"

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """The facts in words: (topic, sentence)."""
        spaces = {report.access.array.space for report in self.accesses}
        return (
            *sentences(self.facts, self.branches),
            *unit_latency_sentences(self.facts, spaces),
            *dram_sentences(self.facts, self.accesses),
            *self._pipeline_sentences(),
            *self._bounds_sentences(),
        )

    def _pipeline_sentences(self) -> Iterator[Sentence]:
        if self.pipeline is not None:
            yield "pipeline", self.pipeline.line
            for claim in self.pipeline.claims:
                yield "pipeline", f"{claim.name} {claim.verdict}: {claim.reason}"

    def _bounds_sentences(self) -> Iterator[Sentence]:
        if self.bounds:
            yield "bounds", bounds_summary(self.bounds)
        for claim in self.bounds:
            if claim.verdict != "proved":
                yield "bounds", f"{claim.access.kind} {claim.text} {claim.verdict}: {claim.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; infinities and NaN are null."""
        content = _plain({name: getattr(self.facts, name) for name in _FACTS})
        for name, properties in _DERIVED.items():
            if content[name] is not None:
                content[name] |= {key: _plain(getattr(getattr(self.facts, name), p)) for key, p in properties.items()}
        if self.facts.work is not None:
            content["work"]["flop"] = dict(self.facts.work.flop)
        return {
            "kernel": self.kernel,
            "target": self.facts.target,
            "device": self.facts.device or None,
            "accesses": [_access(report) for report in self.accesses],
            "facts": {
                **content,
                "branches": [
                    {"text": text, "kind": b.kind, "parting": _plain(b.parting), "reason": b.reason}
                    for b, text in zip(self.facts.branches, self.branches, strict=True)
                ],
                "choices": self.facts.choices,
                "flop_per_byte_read": _plain(self.facts.flop_per_byte_read),
                "unknown": self.facts.unknown,
            },
            "pipeline": _pipeline(self.pipeline),
            "bounds": bounds_content(self.bounds),
            "sentences": [{"topic": topic, "text": text} for topic, text in self.sentences],
        }


@dataclass(frozen=True, repr=False)
class Report:
    """All launches of a kernel, in order."""

    kernel: str
    kernels: tuple[LaunchReport, ...]

    def __repr__(self) -> str:
        return f"<Report {self.kernel}: {', '.join(map(repr, self.kernels))}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        from cugen.html.notebook import Launch, report_html

        return report_html([Launch(each.kernel, each.accesses, each.facts, each.sentences) for each in self.kernels])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"kernel": self.kernel, "launches": [launch.to_dict() for launch in self.kernels]}


_DERIVED = {  # fact -> {key: property}
    "launch": {"is_within_limits": "is_within_limits"},
    "constant": {"is_uniform": "is_uniform"},
    "traffic": {"asked": "requested", "moved": "moved", "efficiency": "efficiency", "reuse": "reuse"},
    "hiding": {"bandwidth_share": "bandwidth_share"},
    "copies": {"bandwidth_share": "bandwidth_share"},
}
_FACTS = (
    *("launch", "occupancy", "waves", "compiler", "local", "constant"),
    *("work", "traffic", "roofline", "hiding", "copies"),
)


def analyze(
    kernel: Kernel | Spec,
    target: Target | str | None = None,
    params: Mapping[str, int] | None = None,
    device: Device | str | None = None,
    *,
    offsets: Mapping[str, int] | None = None,
    bank_bytes: int | None = None,
    cache: Cache | None = None,
    resources: Mapping[str, Resources] | None = None,
    settle: bool = False,
) -> Report:
    """The report of a kernel on a target, by default that of the device, or of the spec.

    `params` are the values of dynamic params by their names in the spec; ValueError for an unknown name. `offsets`,
    `bank_bytes` and `cache` are those of `analyze_kernel`. `resources` are a compiler's figures by the
    name of each launched kernel, such as those of a `Cubin`. With `settle` a compiler decides what the analysis assumes
    of branches, for the spec's target. UnknownTarget and UnknownDevice as the tables raise them,
    ValueError for a device of another target.
    """
    made = kernel if isinstance(kernel, Kernel) else generate(kernel)
    context = made.context
    gpu = known_device(device) if isinstance(device, str) else device
    target_or_default = target if target is not None else (gpu.target if gpu else made.spec.target)
    values = _values(made.spec, context, params or {})
    open_ = {str(context.symbols[p.name]): p.multiple_of for p in made.spec.params}
    open_ = {name: multiple for name, multiple in open_.items() if name not in values}
    launches = []
    for launch in made.plan.kernels:
        accesses = analyze_any_size(
            launch, target_or_default, values, open_, offsets=offsets, bank_bytes=bank_bytes, cache=cache
        ).accesses
        compiled = (resources or {}).get(launch.name)
        launch_facts = facts(
            launch, context, target_or_default, values, device=gpu, resources=compiled, accesses=accesses
        )
        accesses = settled_accesses(accesses, launch_facts.local)
        if settle and launch_facts.target == made.manifest.target:
            launch_facts = settled_by_compiler(made, launch, launch_facts)
        printer = NodePrinter(dict(launch.ranges), dict(made.plan.scalar_symbols), dict(made.plan.param_symbols))
        texts = tuple(branch_text(branch, printer) for branch in launch_facts.branches)
        launches.append(
            LaunchReport(
                launch.name, accesses, launch_facts, texts, prove_pipeline(launch), prove_bounds(launch, context)
            )
        )
    return Report(made.name, tuple(launches))


def settled_by_compiler(kernel: Kernel, launch: PlannedKernel, launch_facts: Facts) -> Facts:
    """Facts of a launch whose assumed branches are settled by machine code; unchanged without a compiler for the
    spec's target, or a disassembler. Raises CompileError if the compiler rejects the source."""
    if not any(branch.is_assumed for branch in launch_facts.branches):
        return launch_facts
    from cugen.compiled.branches import programs, with_machine_code
    from cugen.toolchain.codes import COMPILE_FAILED
    from cugen.toolchain.cuda import compile_cubin, compile_ptx
    from cugen.toolchain.errors import CompileError, ToolMissing

    target = kernel.manifest.target
    try:
        image = compile_cubin(kernel.source, kernel.name, target).image
        program = programs(image, compile_ptx(kernel.source, kernel.name, target))[launch.name]
    except (ToolMissing, ValueError):  # ValueError: the lines of the two compilations differ
        return launch_facts
    except CompileError as error:
        if error.code == COMPILE_FAILED:
            raise
        return launch_facts
    return with_machine_code(launch_facts, launch, program, kernel.statement_lines())


def _values(spec: Spec, context: Context, given: Mapping[str, int]) -> dict[str, int]:
    """Params with a value, by their C names."""
    dynamic = [p.name for p in spec.params if p.is_dynamic]
    for name in given:
        if name not in dynamic:
            raise ValueError(f"{spec.kernel} has no dynamic param {name!r}; known are {', '.join(dynamic) or 'none'}")
    known = {p.name: p.value for p in spec.params if p.value is not None} | dict(given)
    return {str(context.symbols[name]): int(value) for name, value in known.items()}


def branch_text(branch: BranchFacts, printer: NodePrinter) -> str:
    """A branch as printed in the source; of a choice, its condition."""
    if branch.kind in ("choice", "function", "conversion"):
        return expression_text(branch, printer)
    match branch.node:
        case AcquireSpinWait() as wait:
            return f"while ({printer.spin_wait(wait)})"
        case ReturnUnless(guard=guard):
            return f"return if ({printer.negated(guard)})"
        case For() as loop:
            return printer.loop(loop)
        case If(condition=condition):
            return f"if ({printer.condition(condition)})"
        case Load(guard=guard, access=access) | Copy(guard=guard, source=access) if guard is not None:
            return f"{access.array.symbol} if ({printer.condition(guard)})"
    raise TypeError(f"no branch: {branch.node}")


def expression_text(branch: BranchFacts, printer: NodePrinter) -> str:
    """What branches inside an expression: `x > 0 ? … : …`, or the name of a function or conversion."""
    match branch.expr:
        case Select(condition=condition):
            return f"{printer.print(condition)} ? … : …"
        case Op() as logic:
            return printer.print(logic)
    return branch.name


def _access(report: AccessReport) -> dict[str, Any]:
    totals = report.totals
    counted = None
    if totals is not None:
        names = ("warps", "mixed_warps", "lanes", "requests", "wavefronts", "ideal_wavefronts", "sectors")
        counted = {name: getattr(totals, name) for name in (*names, "ideal_sectors")}
    return {
        "text": report.text,
        "array": report.access.array.name,
        "space": report.space,
        "kind": report.access.kind,
        "bytes_per_lane": report.access.array.dtype.bytes * report.access.width,
        "unit": report.unit,
        "cost": report.cost if totals is not None else None,
        "ideal": report.ideal if totals is not None else None,
        "ratio": report.ratio,
        "verdict": report.verdict,
        "per_request": _plain(report.per_request),
        "claim": report.claim,
        "reason": report.reason,
        "doubt": report.doubt,
        "totals": counted,
    }


def bounds_content(claims: Sequence[BoundsClaim]) -> list[dict[str, Any]]:
    """For JSON: each access with its verdict."""
    return [
        {
            "text": claim.text,
            "array": claim.access.array.name or claim.access.array.symbol,
            "space": claim.access.array.space,
            "kind": claim.access.kind,
            "verdict": claim.verdict,
            "reason": claim.reason,
        }
        for claim in claims
    ]


def _pipeline(proof: PipelineProof | None) -> dict[str, Any] | None:
    if proof is None:
        return None
    return {"verdict": proof.verdict, "summary": proof.line, "claims": [asdict(claim) for claim in proof.claims]}


def _plain(value: Any) -> Any:
    """Dataclasses as dicts, tuples as lists, infinities as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return _plain(asdict(value))
    return value
