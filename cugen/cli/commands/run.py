"""Generate, compile and run the kernels of a spec, and compare their results with the NumPy reference."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.dynamic import dynamic_values
from cugen.cli.failures import DONE, NO, OWN_FAULT, Failure, files_of_the_user, wrong_call
from cugen.cli.numbers import natural, positive
from cugen.cli.parallel.scheduler import add_scheduler_option, cluster_of
from cugen.cli.resources import resources_of
from cugen.cli.specs import (
    add_lock_options,
    add_options,
    add_template_option,
    assignment,
    for_device,
    load_one_file,
    settings_of,
    templates_of,
    unique,
    with_locks,
)
from cugen.cli.text import run as report
from cugen.cli.text.terminal import note, paint_findings, progress, show
from cugen.cli.values import SET, Value, plain

if TYPE_CHECKING:
    from cugen.runtime.devices import Choice
    from cugen.runtime.inputs import Inputs
    from cugen.runtime.verify import Run
    from cugen.spec.model import Spec


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="spec file")
    parser.add_argument(
        "--device", choices=("auto", "gpu", "cpu"), default="auto", help="auto uses a GPU if there is one (default)"
    )
    parser.add_argument("--kernel", metavar="NAME", help="run only this kernel")
    add_options(parser)
    add_lock_options(parser)
    add_template_option(parser)
    parser.add_argument(
        "--input",
        metavar="A=a.npy",
        action="append",
        default=[],
        type=assignment,
        dest="inputs",
        help="read an array from a .npy, .npz, .png or .jpg file; others are random",
    )
    parser.add_argument(
        "--output",
        metavar="C=c.npy",
        action="append",
        default=[],
        type=assignment,
        dest="outputs",
        help="save an output array as .npy, .png or .jpg",
    )
    parser.add_argument("--seed", metavar="N", type=natural, default=0, help="seed of the random inputs (default: 0)")
    parser.add_argument("--repeat", metavar="N", type=positive, default=1, help="time N runs (default: 1)")
    parser.add_argument(
        "--nan",
        choices=("warn", "error"),
        default="warn",
        help="NaN and infinities in a result that the reference has too: a warning (default), or exit status 1",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--sanitize", action="store_true", help="CPU only: run under the address and undefined-behaviour sanitizers"
    )
    parser.add_argument(
        "--shuffle", metavar="SEED", type=natural, help="CPU only: run the threads of a block in random order"
    )
    add_scheduler_option(parser)


def execute(args: argparse.Namespace) -> int:
    if args.device == "gpu" and (args.sanitize or args.shuffle is not None):
        raise wrong_call("`--sanitize` and `--shuffle` are for the CPU device", "leave out `--device gpu`")
    specs = load_one_file(args)
    if len(specs) > 1 and (args.inputs or args.outputs):
        names = ", ".join(spec.kernel for spec in specs[:20])
        raise wrong_call("`--input` and `--output` are for one kernel", f"choose one with `--kernel`: {names}")
    if args.scheduler and (args.inputs or args.outputs):
        raise wrong_call("`--input` and `--output` are files of this machine", "leave out `--scheduler`")
    contents = []
    for content in (_on_cluster if args.scheduler else _here)(specs, args):
        contents.append(content)
        if content["nonfinite"]:
            note(paint_findings(report.nonfinite_finding(content, args.nan), sys.stderr), quiet=args.quiet)
        if not args.json:
            show(report.text(content, quiet=args.quiet))
    if args.json:
        print(json.dumps(contents[0] if len(contents) == 1 else {"kernels": contents}, indent=2))
    return DONE if all(content["passed"] for content in contents) else NO


def _here(specs: Sequence[Spec], args: argparse.Namespace) -> Iterator[report.Content]:
    from cugen.runtime.devices import choose

    choice = choose(args.device, sanitize=args.sanitize, shuffle=args.shuffle)
    note(choice.note, quiet=args.quiet)
    specs = with_locks(for_device(specs, choice.device.capability, args), args)
    for spec in progress(specs, len(specs), "running", quiet=args.quiet):
        yield _run(spec, choice, args)


def _on_cluster(specs: Sequence[Spec], args: argparse.Namespace) -> Iterator[report.Content]:
    """Results of the GPU workers, or of the CPU device on CPU workers."""
    from cugen.cluster.engine import ClusterEngine
    from cugen.cluster.mapping import mapped

    with cluster_of(args) as cluster:
        is_for_cpu = args.device == "cpu" or args.sanitize or args.shuffle is not None
        if is_for_cpu or (args.device == "auto" and not any(worker.has_gpu for worker in cluster.workers())):
            args.device, capability, gpu_workers = "cpu", "", tuple[str, ...]()
        else:
            engine = ClusterEngine(cluster)
            args.device, capability, gpu_workers = "gpu", engine.gpus[0].capability, engine.addresses
        specs = with_locks(for_device(specs, capability, args), args)
        results = mapped(cluster, partial(_run_alone, args=args), specs, gpu_workers=gpu_workers)
        yield from progress(results, len(specs), "running", quiet=args.quiet)


def _run_alone(spec: Spec, *, args: argparse.Namespace) -> report.Content:
    """Runs on a worker of a cluster."""
    from cugen.runtime.devices import choose

    return _run(spec, choose(args.device, sanitize=args.sanitize, shuffle=args.shuffle), args)


def _run(spec: Spec, choice: Choice, args: argparse.Namespace) -> report.Content:
    from cugen.kernel import generate
    from cugen.runtime.verify import verify
    from cugen.toolchain.codes import COMPILE_FAILED
    from cugen.toolchain.errors import CompileError
    from cugen.toolchain.failure import explain_failure

    dynamic = dynamic_values(spec, args, _shapes(spec, args))
    params = plain(dynamic)
    inputs = _inputs(spec, params, args)
    outputs = _outputs(spec, params, args)
    kernel = generate(spec, templates=templates_of(args))
    note(f"{kernel.name}: compiling and running on the {choice.device.name}", quiet=args.quiet or not args.json)
    try:
        result = verify(
            spec,
            kernel.source,
            kernel.manifest,
            choice.device,
            params=params,
            inputs=inputs,
            seed=args.seed,
            repeat=max(1, args.repeat),
        )
        resources = resources_of(kernel) if not result.outcome.registers else None
    except CompileError as error:
        if error.code != COMPILE_FAILED:
            raise
        raise Failure(explain_failure(error, kernel.source), OWN_FAULT) from error
    _save(result, outputs)
    numbers = report.Numbers(dynamic, _scalars(spec, args))
    return report.content(kernel, numbers, choice, result, resources, args)


def _scalars(spec: Spec, args: argparse.Namespace) -> tuple[Value, ...]:
    """The scalars without a value in the spec, as they are in the first run."""
    from cugen.runtime.inputs import draw_scalars

    settings = settings_of(args)
    drawn = draw_scalars(spec, args.seed)
    return tuple(
        Value(name, settings[name], SET) if name in settings else Value(name, value, f"drawn, seed {args.seed}")
        for name, value in drawn.items()
    )


def _shapes(spec: Spec, args: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of `--input`, without images, which have several."""
    from cugen.runtime.files import shape_in

    files = unique(args.inputs, "--input")
    for item in files:
        _check_name(spec, item.name, ("input", "inout"), "--input", "read")
    shapes = {item.name: shape_in(item.name, Path(item.value)) for item in files}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _inputs(spec: Spec, params: Mapping[str, int], args: argparse.Namespace) -> Inputs | None:
    """Inputs with the arrays of `--input`, others random; None without `--input`."""
    from cugen.runtime.files import read
    from cugen.runtime.inputs import draw, known_params, shape_of

    settings = settings_of(args)
    scalars = {s.name: settings[s.name] for s in spec.scalars if s.value is None and s.name in settings}
    files = unique(args.inputs, "--input")
    if not files and not scalars:
        return None
    known = known_params(spec, params)
    arrays = {}
    for item in files:
        array = spec.array(item.name)
        arrays[item.name] = read(item.name, Path(item.value), shape_of(array, known), array.dtype)
    drawn = draw(spec, known, args.seed)
    return replace(drawn, arrays={**drawn.arrays, **arrays}, scalars={**drawn.scalars, **scalars})


def _outputs(spec: Spec, params: Mapping[str, int], args: argparse.Namespace) -> dict[str, Path]:
    """Paths of the outputs that `--output` saves."""
    from cugen.runtime.files import OUTPUTS, check_output
    from cugen.runtime.inputs import known_params, shape_of

    wanted = unique(args.outputs, "--output")
    names: dict[Path, str] = {}
    for item in wanted:
        _check_name(spec, item.name, ("output", "inout"), "--output", "written")
        if Path(item.value).suffix.lower() not in OUTPUTS:
            raise wrong_call(f"`--output {item.name}={item.value}`: the file must be one of {', '.join(OUTPUTS)}")
        if not Path(item.value).parent.is_dir():
            raise wrong_call(f"`--output {item.name}={item.value}`: no such folder: {Path(item.value).parent}")
        if Path(item.value).is_dir():
            raise wrong_call(f"`--output {item.name}={item.value}`: this is a folder")
        if (first := names.setdefault(Path(item.value).resolve(), item.name)) != item.name:
            raise wrong_call(f"`--output {item.name}={item.value}`: `{first}` is saved in this file")
        array = spec.array(item.name)
        check_output(item.name, Path(item.value), shape_of(array, known_params(spec, params)), array.dtype)
    return {item.name: Path(item.value) for item in wanted}


def _check_name(spec: Spec, name: str, roles: Sequence[str], option: str, verb: str) -> None:
    from cugen.abi.codes import UNKNOWN_ARGUMENT
    from cugen.abi.errors import RunError
    from cugen.spec.nearest import did_you_mean

    known = [array.name for array in spec.arrays if array.role in roles]
    if name not in known:
        cure = did_you_mean(name, known, what=f"arrays that are {verb}")
        raise RunError(
            UNKNOWN_ARGUMENT, f"`{option} {name}=…`: {spec.kernel} has no array `{name}` that is {verb}", cure
        )


def _save(result: Run, outputs: Mapping[str, Path]) -> None:
    from cugen.emit.files import write_atomically
    from cugen.runtime.files import encode

    for name, path in outputs.items():
        content = encode(path, result.outputs[name])
        with files_of_the_user():
            write_atomically(path, content)
