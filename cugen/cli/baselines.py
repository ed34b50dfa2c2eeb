"""Kernels that others are compared with (`--diff`)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import wrong_call
from cugen.cli.specs import load_files, settings_of

if TYPE_CHECKING:
    from cugen.spec.model import Spec


def baseline_of(kernel: str, kernels: int, baselines: Sequence[str], diff: str) -> int:
    """The position of the baseline with the name of a kernel, or of the only one if there is one kernel as well.
    Failure if there is none."""
    if kernels == len(baselines) == 1:
        return 0
    if kernel in baselines:
        return baselines.index(kernel)
    raise wrong_call(f"`--diff {diff}` has no kernel {kernel}", "name one: `--diff SPEC:KERNEL`")


def baseline_specs(diff: str, args: argparse.Namespace) -> tuple[Spec, ...]:
    """The specs of `--diff`: `SPEC`, or one kernel of it, `SPEC:KERNEL`."""
    file, kernel = file_and_kernel(diff)
    if kernel is None:
        return load_files([file], args)
    from cugen.spec.load import load

    return (load(file, settings_of(args), kernel=kernel, target=args.target),)


def file_and_kernel(text: str) -> tuple[str, str | None]:
    """The parts of `SPEC` or `SPEC:KERNEL`."""
    file, colon, kernel = text.rpartition(":")
    return (file, kernel) if colon and not Path(text).exists() else (text, None)
