"""Show everything known about the kernels of a spec: the plan and its reasons, the source, PTX, machine code."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from cugen.cli.failures import CANNOT_HERE, DONE, OWN_FAULT, Failure
from cugen.cli.resources import resources_of
from cugen.cli.specs import add_options, load_one_file

if TYPE_CHECKING:
    from cugen.kernel import Kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="a spec's file")
    parser.add_argument("--what", choices=(*_SECTIONS, "all"), default="plan", help="default: plan")
    parser.add_argument("--kernel", metavar="NAME", help="the one of several kernels to show")
    add_options(parser)


def execute(args: argparse.Namespace) -> int:
    from cugen.kernel import generate
    from cugen.toolchain.codes import COMPILE_FAILED
    from cugen.toolchain.errors import CompileError, ToolMissing
    from cugen.toolchain.failure import explain_failure

    whats = list(_SECTIONS) if args.what == "all" else [args.what]
    specs = load_one_file(args)
    first = True
    for spec in specs:
        kernel = generate(spec)
        for what in whats:
            try:
                text = _SECTIONS[what](kernel)
            except ToolMissing as error:
                if args.what != "all":
                    raise
                text = str(error)
            except CompileError as error:
                if error.code == COMPILE_FAILED:
                    raise Failure(explain_failure(error, kernel.source), OWN_FAULT) from error
                if args.what != "all":
                    raise Failure(str(error), CANNOT_HERE) from error
                text = str(error)
            if len(specs) * len(whats) > 1:
                print(("" if first else "\n") + f"==== {kernel.name}: {what} ====")
            print(text.rstrip("\n"))
            first = False
    return DONE


def _plan(kernel: Kernel) -> str:
    from cugen.cli.plan_text import plan_text

    return plan_text(kernel, resources_of(kernel))


def _source(kernel: Kernel) -> str:
    return kernel.source


def _ptx(kernel: Kernel) -> str:
    from cugen.toolchain.cuda import compile_ptx

    return compile_ptx(kernel.source, kernel.name, kernel.manifest.target)


def _sass(kernel: Kernel) -> str:
    from cugen.toolchain.cuda import compile_cubin
    from cugen.toolchain.disassembler import disassemble

    return disassemble(compile_cubin(kernel.source, kernel.name, kernel.manifest.target).image)


_SECTIONS: dict[str, Callable[[Kernel], str]] = {"plan": _plan, "source": _source, "ptx": _ptx, "sass": _sass}
