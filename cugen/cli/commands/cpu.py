"""Write <stem>_cpu.cpp for generated .cu files, with which a C++ compiler builds the kernel and its launcher for the
CPU. Projects can then be built, run and tested without CUDA."""

from __future__ import annotations

import argparse
from pathlib import Path

from cugen.cli.failures import DONE, files_of_the_user, wrong_call
from cugen.cli.text.terminal import note
from cugen.emit.files import write_atomically
from cugen.emit.host.cpu import NotGenerated, cpu_path, cpu_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", metavar="KERNEL.cu", nargs="+", type=Path, help=".cu file written by `cugen generate`"
    )
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="output folder (default: that of the .cu)")
    parser.add_argument(
        "--write",
        choices=("if-changed", "always"),
        default="if-changed",
        help="skip unchanged files (default), or write all files",
    )


def execute(args: argparse.Namespace) -> int:
    always = args.write == "always"
    written = 0
    with files_of_the_user():
        for source in args.sources:
            try:
                text = cpu_text(source)
            except NotGenerated as error:
                raise wrong_call(
                    str(error), "give a .cu with the .json of `cugen generate` in the same folder"
                ) from error
            path = cpu_path(source, args.output)
            if always or not path.exists() or path.read_bytes() != text.encode():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, text.encode())
                written += 1
                if not args.quiet:
                    print(f"wrote {path}")
    if not written:
        note(f"{len(args.sources)} file{'s' * (len(args.sources) > 1)} up to date", quiet=args.quiet)
    return DONE
