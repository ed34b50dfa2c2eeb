"""Verify and time kernels on the GPU, interleaved with a device copy or read, and with other libraries."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.dynamic import dynamic_values
from cugen.cli.failures import DONE, NO, OWN_FAULT, Failure, files_of_the_user, wrong_call
from cugen.cli.numbers import natural, positive
from cugen.cli.outputs import refuse_no_file, refuse_unwritable
from cugen.cli.parallel.scheduler import add_scheduler_option, cluster_of
from cugen.cli.specs import add_lock_options, add_options, for_device, settings_of, with_locks
from cugen.cli.text.terminal import note
from cugen.cli.values import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cugen.bench.measure import Content
    from cugen.bench.session import Session
    from cugen.spec.model import Spec

PEERS = ("torch", "cupy", "triton")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPEC", nargs="+", help="spec file")
    parser.add_argument("--kernel", metavar="NAME", help="time only this kernel")
    add_options(parser)
    add_lock_options(parser)
    parser.add_argument(
        "--against",
        metavar="LIBRARY,…",
        type=_peers,
        default=(),
        help=f"also time other libraries: {', '.join(PEERS)} (PyTorch's compiler, which generates Triton kernels)",
    )
    parser.add_argument(
        "--samples", metavar="N", type=positive, default=100, help="samples of each contender (default: 100)"
    )
    parser.add_argument("--seed", metavar="N", type=natural, default=0, help="seed of the random inputs (default: 0)")
    parser.add_argument("--gpus", choices=("all",), help="time each kernel on every GPU of this machine, all at once")
    parser.add_argument("--chart", metavar="FILE.svg", type=Path, help="draw a bar chart of the shares of the ceiling")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_scheduler_option(parser)


def execute(args: argparse.Namespace) -> int:
    from cugen.cli.text.bench import text

    if args.gpus and args.scheduler:
        raise wrong_call("`--gpus` is for this machine", "leave out `--scheduler`, or `--gpus`")
    if args.chart:
        refuse_no_file("--chart", args.chart)
        refuse_unwritable("--chart", args.chart, args.chart.parent, makes_folders=False)
    contents = []
    for content in (_on_cluster if args.scheduler else _on_all if args.gpus else _here)(_specs(args), args):
        contents.append(content)
        if not args.json:
            print(text(content, quiet=args.quiet), flush=True)
    if args.chart:
        _draw(args.chart, contents)
    if args.json:
        print(json.dumps(contents[0] if len(contents) == 1 else {"kernels": contents}, indent=2))
    return DONE if all(content["passed"] for content in contents) else NO


def _here(specs: Sequence[Spec], args: argparse.Namespace) -> Iterator[Content]:
    from cugen.bench.session import session
    from cugen.runtime.cuda.choice import without_pycuda
    from cugen.runtime.gpu import GpuDevice

    device = GpuDevice()  # raises RunError with a cure if there is no GPU
    note(without_pycuda(), quiet=args.quiet)
    specs = with_locks(for_device(specs, device.capability, args), args)
    with session() as opened:
        for spec in specs:
            yield _bench(opened, spec, args)


def _on_all(specs: Sequence[Spec], args: argparse.Namespace) -> Iterator[Content]:
    """Results of each kernel on every GPU, with `gpu`, its UUID, and `to_median`: its cold time relative to the median
    of its model."""
    from cugen.bench.gpus import with_medians
    from cugen.cli.parallel.gpus import on_each_gpu
    from cugen.runtime.cuda.choice import without_pycuda
    from cugen.tune.timing.gpus import identified_gpus

    gpus = identified_gpus()  # raises RunError with a cure if there is no GPU
    note(without_pycuda(), quiet=args.quiet)
    specs_of = {c: with_locks(for_device(specs, c, args), args) for c in sorted({gpu.capability for gpu in gpus})}
    results = on_each_gpu(gpus, partial(_bench_alone, args=args), lambda gpu: specs_of[gpu.capability])
    for contents in results:
        yield from with_medians([{**c, "gpu": gpu.uuid} for gpu, c in zip(gpus, contents, strict=True)])


def _on_cluster(specs: Sequence[Spec], args: argparse.Namespace) -> Iterator[Content]:
    """Results of the GPU workers whose GPUs are of the first model, one kernel at a time on each."""
    from cugen.cluster.engine import ClusterEngine
    from cugen.cluster.mapping import mapped

    with cluster_of(args) as cluster:
        engine = ClusterEngine(cluster)
        specs = with_locks(for_device(specs, engine.gpus[0].capability, args), args)
        yield from mapped(cluster, partial(_bench_alone, args=args), specs, gpu_workers=engine.addresses)


def _bench_alone(spec: Spec, *, args: argparse.Namespace) -> Content:
    """Runs in a process with one GPU."""
    from cugen.bench.session import session

    with session() as opened:
        return _bench(opened, spec, args)


def _specs(args: argparse.Namespace) -> Sequence[Spec]:
    from cugen.cli.specs import load_files
    from cugen.spec.load import load

    if not args.kernel:
        return load_files(args.specs, args)
    return [load(file, settings_of(args), kernel=args.kernel, target=args.target) for file in args.specs]


def _bench(opened: Session, spec: Spec, args: argparse.Namespace) -> Content:
    from cugen.bench.measure import Options, bench
    from cugen.toolchain.codes import COMPILE_FAILED
    from cugen.toolchain.errors import CompileError

    options = Options(samples=args.samples, against=args.against, seed=args.seed)
    values = dynamic_values(spec, args)
    note(f"{spec.kernel}: checking and timing", quiet=args.quiet or not args.json)
    try:
        content = bench(opened, spec, plain(values), options)
    except CompileError as error:
        if error.code != COMPILE_FAILED:
            raise
        raise Failure(f"{spec.kernel}: {error}", OWN_FAULT) from error
    return {**content, "dynamic_params": [asdict(value) for value in values]}


def _draw(path: Path, contents: Sequence[Content]) -> None:
    """Writes a chart of the cold-cache shares of all timed kernels."""
    from cugen.bench.chart import Bars, chart
    from cugen.emit.files import write_atomically

    rows = [
        Bars(
            content["kernel"],
            tuple(
                (row["name"], row["share_of_ceiling"])
                for row in content["regimes"]["cold"]
                if row["name"] not in ("copy", "read") and row["share_of_ceiling"] is not None
            ),
        )
        for content in contents
        if content["regimes"]
    ]
    title = f"Kernels on {contents[0]['device']}"
    with files_of_the_user():
        write_atomically(path, chart(title, rows).encode())


def _peers(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(PEERS)}, not {name!r}")
    return names
