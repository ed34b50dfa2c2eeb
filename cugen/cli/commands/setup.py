"""Build PyCUDA for this environment, against the CUDA headers of this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cugen.cli.failures import DONE, files_of_the_user
from cugen.cli.text.terminal import note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("package", metavar="gpu", choices=("gpu",), help="PyCUDA, through which cugen uses the GPU")
    parser.epilog = (
        "The headers are those of CUDA_HOME, of CUDA's wheels (pip install 'cugen[cuda]'), of the toolkit of nvcc on "
        "PATH, or of /usr/local/cuda."
    )


def execute(args: argparse.Namespace) -> int:
    from cugen.toolchain import pycuda
    from cugen.toolchain.cache import folder
    from cugen.toolchain.errors import BuildError

    log = folder() / "setup-gpu.log"
    state = pycuda.state()
    if not state.version or (state.error and not state.needs_driver):
        headers = pycuda.header_folders()
        what = f"building PyCUDA against {' and '.join(map(str, headers))}"
        with files_of_the_user(), _progress(what, quiet=args.quiet) as progress:
            pycuda.build(headers, log, progress)
        state = pycuda.state()
    if state.needs_driver:
        print(f"PyCUDA {state.version} is built; to use it, {pycuda.INSTALL_DRIVER}")
    elif state.error:
        cure = "update NVIDIA's driver, or set CUDA_HOME to a CUDA toolkit of the driver's version"
        raise BuildError("PyCUDA", f"its module can't be imported: {state.error}", cure, log)
    else:
        print(f"PyCUDA {state.version} works")
    return DONE


@contextmanager
def _progress(what: str, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """One line on standard error, on a terminal with the seconds, until the end."""
    is_terminal = sys.stderr.isatty() and not quiet
    if not is_terminal:
        note(what, quiet=quiet)
    try:
        yield lambda seconds: _rewrite(f"{what}: {seconds:.0f} s") if is_terminal else None
    finally:
        if is_terminal:
            _rewrite("")


def _rewrite(line: str) -> None:
    sys.stderr.write(f"\r{line}\033[K")
    sys.stderr.flush()
