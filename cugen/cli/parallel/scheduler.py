"""`--scheduler`: commands that work on a Dask cluster."""

from __future__ import annotations

import argparse
import re
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from cugen.cli.failures import wrong_call

if TYPE_CHECKING:
    from cugen.cluster.connection import Cluster

_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:\d{1,5}")


def add_scheduler_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--scheduler`."""
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        type=_scheduler,
        help="work on a Dask cluster: tcp://HOST:PORT of its scheduler, or local for this machine",
    )


def cluster_of(args: argparse.Namespace, *, module: str = "cugen.cluster.mapping") -> AbstractContextManager[Cluster]:
    """The cluster of `--scheduler`, which is given. ToolMissing without Dask, ClusterError if it can't be used.
    `module`: what the command imports next, which a local cluster's start takes longer than."""
    from cugen.cluster.connection import connected

    if getattr(args, "jobs", 1) > 1:
        raise wrong_call("`--jobs` is for work without `--scheduler`", "the workers of the cluster set the number")
    return connected(args.scheduler, partial(import_module, module))


def _scheduler(text: str) -> str:
    if text != "local" and not _ADDRESS.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected local or an address such as tcp://10.0.0.1:8786, not {text!r}")
    return text
