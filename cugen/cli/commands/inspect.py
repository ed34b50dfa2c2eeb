"""Show the kernels of a spec: the plan with its reasons, the cost analysis, source, PTX and SASS."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cugen.cli import what_if
from cugen.cli.failures import CANNOT_HERE, DONE, OWN_FAULT, Failure
from cugen.cli.resources import resources_of
from cugen.cli.specs import (
    add_lock_options,
    add_options,
    add_template_option,
    dynamic_params,
    known_device_of,
    load_one_file,
    templates_of,
    with_locks,
)
from cugen.cli.text.terminal import paint, paint_code, paint_findings, show

if TYPE_CHECKING:
    from cugen.kernel import Kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", nargs="?", help="spec file")
    parser.add_argument("--what", choices=(*_SECTIONS, "all"), default="plan", help="default: plan")
    parser.add_argument("--kernel", metavar="NAME", help="show only this kernel")
    add_options(parser)
    add_lock_options(parser)
    add_template_option(parser)
    what_if.add_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    from cugen.kernel import generate
    from cugen.toolchain.codes import COMPILE_FAILED
    from cugen.toolchain.errors import CompileError, ToolMissing
    from cugen.toolchain.failure import explain_failure

    if what_if.is_requested(args):
        specs = with_locks(load_one_file(args), args) if args.spec is not None else (None,)
        for spec in specs:
            show(what_if.occupancy_text(args, spec))
        return DONE
    whats = list(_SECTIONS) if args.what == "all" else [args.what]
    specs = with_locks(load_one_file(args), args)
    first = True
    for spec in specs:
        kernel = generate(spec, templates=templates_of(args))
        params = dynamic_params(spec, args)
        for what in whats:
            try:
                text = _SECTIONS[what](kernel, params, args.device_name)
            except ToolMissing as error:
                if args.what != "all":
                    raise
                text = paint_findings(str(error), sys.stdout)
            except CompileError as error:
                if error.code == COMPILE_FAILED:
                    raise Failure(explain_failure(error, kernel.source), OWN_FAULT) from error
                if args.what != "all":
                    raise Failure(str(error), CANNOT_HERE) from error
                text = paint_findings(str(error), sys.stdout)
            if len(specs) * len(whats) > 1:
                print(("" if first else "\n") + paint(f"==== {kernel.name}: {what} ====", "bold", sys.stdout))
            print(text.rstrip("\n"))
            first = False
    return DONE


def _plan(kernel: Kernel, params: Mapping[str, int], device: str) -> str:
    from cugen.cli.text.plan import plan_text
    from cugen.kernel_price import price_of

    price = price_of(kernel, params, known_device_of(kernel.spec, device))
    return plan_text(kernel, resources_of(kernel), price)


def _analysis(kernel: Kernel, params: Mapping[str, int], device: str) -> str:
    """The analysis on a device; "" is the default one of the target."""
    from cugen.cli.text.analysis import analysis_text
    from cugen.kernel_report import analyze

    resources = resources_of(kernel)
    chosen = known_device_of(kernel.spec, device)
    report = analyze(kernel, params=params, device=chosen, resources=resources.kernels, settle=True)
    return analysis_text(report, resources)


def _source(kernel: Kernel, params: Mapping[str, int], device: str) -> str:
    return paint_code(kernel.source, sys.stdout)


def _ptx(kernel: Kernel, params: Mapping[str, int], device: str) -> str:
    from cugen.toolchain.cuda import compile_ptx

    return paint_code(compile_ptx(kernel.source, kernel.name, kernel.manifest.target), sys.stdout)


def _sass(kernel: Kernel, params: Mapping[str, int], device: str) -> str:
    from cugen.toolchain.binary.disassembler import disassemble
    from cugen.toolchain.cuda import compile_cubin

    return paint_code(disassemble(compile_cubin(kernel.source, kernel.name, kernel.manifest.target).image), sys.stdout)


_SECTIONS: dict[str, Callable[[Kernel, Mapping[str, int], str], str]] = {
    "plan": _plan,
    "analysis": _analysis,
    "source": _source,
    "ptx": _ptx,
    "sass": _sass,
}
