"""`inspect --threads --registers --shared --target-file`: the occupancy that a block of these figures would have."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cugen.cli.failures import wrong_call
from cugen.cli.numbers import natural, positive
from cugen.cli.specs import templates_of

if TYPE_CHECKING:
    from cugen.machine import Target
    from cugen.spec.model import Spec

_OPTIONS = ("threads", "registers", "shared", "target_file")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "what if", "the occupancy with these figures in place of the kernel's; without SPEC of any block"
    )
    group.add_argument("--threads", metavar="N", type=positive, help="threads per block")
    group.add_argument("--registers", metavar="N", type=natural, help="registers per thread")
    group.add_argument("--shared", metavar="BYTES", type=natural, help="bytes of shared memory per block")
    group.add_argument("--target-file", metavar="FILE", help="a made-up target, as YAML")


def is_requested(args: argparse.Namespace) -> bool:
    return args.spec is None or any(getattr(args, name) is not None for name in _OPTIONS)


def occupancy_text(args: argparse.Namespace, spec: Spec | None) -> str:
    """The occupancy of each launch of a spec, or of a block of the figures given."""
    if args.target and args.target_file:
        raise wrong_call("give either `--target` or `--target-file`")
    if args.what != "plan":
        raise wrong_call("with `--threads`, `--registers`, `--shared` or `--target-file`, `--what` has no effect")
    made_up = _made_up(args)
    if spec is None:
        from cugen.machine import UnknownTarget, target
        from cugen.spec.parse.keys import DEFAULT_TARGET

        if args.threads is None:
            raise wrong_call("without SPEC, `--threads` is needed", "give `--threads 256`, or a spec")
        try:
            row = made_up or target(args.target or DEFAULT_TARGET)
        except UnknownTarget as error:
            raise wrong_call(f"`--target {args.target}`: {error}") from None
        return _text("a block", args, row, args.threads, None, 0)
    from cugen.cli.resources import resources_of
    from cugen.kernel import generate
    from cugen.machine import target

    kernel = generate(spec, analysis=False, templates=templates_of(args))
    resources = resources_of(kernel).kernels if args.registers is None else {}
    texts = []
    for launch in kernel.plan.kernels:
        shared = launch.shared_bytes + launch.dynamic_shared_bytes if args.shared is None else args.shared
        row = made_up or target(spec.target).with_carveout(launch.options.carveout, shared)
        compiled = resources.get(launch.name)
        texts.append(
            _text(launch.name, args, row, launch.threads, None if compiled is None else compiled.registers, shared)
        )
    return "\n".join(texts)


def _made_up(args: argparse.Namespace) -> Target | None:
    if args.target_file is None:
        return None
    from cugen.spec.parse.target_file import read_target

    return read_target(args.target_file)


def _text(name: str, args: argparse.Namespace, row: Target, threads: int, registers: int | None, shared: int) -> str:
    """`threads`, `registers` and `shared` are those of the kernel, where the call doesn't give them."""
    from cugen.analysis.launches.launch import occupancy_of
    from cugen.analysis.launches.sentences import UNKNOWN_REGISTERS, next_step_text, resident_text

    threads = args.threads or threads
    registers = registers if args.registers is None else args.registers
    shared = shared if args.shared is None else args.shared
    occupancy = occupancy_of(row, threads, registers, shared)
    counted = "unknown" if registers is None else str(registers)
    lines = [
        f"{name} on {row.name}: {threads} threads, {counted} registers, {shared:,} shared bytes per block",
        f"  occupancy  {resident_text(occupancy, row.name)}",
    ]
    if registers is None:
        lines.append(f"             {UNKNOWN_REGISTERS}")
    if occupancy.can_launch:
        lines.append(f"             {next_step_text(occupancy)}")
    return "\n".join(lines)
