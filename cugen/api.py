"""`cugen.run`: a checked call of a kernel on NumPy arrays that returns new outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.abi import wording
from cugen.abi.codes import DEVICE_FAULT, MISSING_ARGUMENT, UNKNOWN_ARGUMENT
from cugen.abi.errors import RunError
from cugen.abi.manifest import ArrayArgument, Manifest, ParamArgument, ScalarArgument
from cugen.abi.sizes import evaluate_all
from cugen.kernel import Kernel, generate
from cugen.result import Result
from cugen.runtime.buffers import view
from cugen.runtime.call.arguments import check_call, merged, shortened
from cugen.runtime.call.views import CPU
from cugen.runtime.devices import DEVICE_NAMES, DeviceName, choose
from cugen.runtime.files import fit
from cugen.runtime.inputs import Inputs, refuse_negative_extents
from cugen.runtime.verify import make_job, outputs_of
from cugen.spec.load import Source, load
from cugen.spec.model import Spec
from cugen.spec.nearest import did_you_mean
from cugen.spec.types import DTYPES


def run(
    kernel_or_spec: Kernel | Spec | Source,
    values: Mapping[str, Any] | None = None,
    /,
    device: DeviceName = "auto",
    **arguments: Any,
) -> Result:
    """The outputs by name, as arrays in their logical shapes. A path, text or mapping is loaded as by `cugen.load`.
    A spec without a target is generated for the device's architecture-specific one (`sm_90a`).

    `arguments` are the inputs (array-likes; only lossless conversions are made), the scalars without a value, and the
    dynamic params that can't be deduced from an input's shape. `values` has more of them by name, such as one that is
    called `device`. SpecError where a spec can't be loaded or generated; ValueError for another `device`; RunError for
    invalid arguments (CG5002 to CG5009), without a GPU (CG5011), and for faults (CG5013); ToolMissing and CompileError
    from the toolchain.
    """
    if not isinstance(device, str) or device not in DEVICE_NAMES:
        allowed = ", ".join(f'"{name}"' for name in DEVICE_NAMES)
        cure = wording.IN_A_MAPPING.format(name="device")
        raise ValueError(f"device is one of {allowed}, not {shortened(device)}; {cure}")
    if not isinstance(kernel_or_spec, Kernel | Spec):
        kernel_or_spec = load(kernel_or_spec)
    chosen = choose(device).device
    if isinstance(kernel_or_spec, Spec):
        kernel_or_spec = generate(kernel_or_spec.for_device(chosen.capability))
    kernel, manifest = kernel_or_spec, kernel_or_spec.manifest
    arguments = merged(manifest, values, arguments)
    _check_names(manifest, arguments)
    inputs = {a.name: np.asarray(arguments[a.name]) for a in _inputs(manifest)}
    params = _dynamic_params(manifest, inputs, arguments)
    known = {**manifest.params, **params}
    refuse_negative_extents(kernel.spec, known)
    for a in _inputs(manifest):
        inputs[a.name] = fit(a.name, inputs[a.name], evaluate_all(a.shape, known), DTYPES[a.dtype])
    scalars = {a.name: arguments[a.name] for a in manifest.arguments if isinstance(a, ScalarArgument)}
    job = make_job(kernel.source, manifest, Inputs(inputs, scalars), params)
    buffers = {a.name: view(job.buffers[a.name], a, known) for a in manifest.arguments if isinstance(a, ArrayArgument)}
    checked = check_call(manifest, {**buffers, **scalars, **params}, device=CPU)
    outcome = chosen.run(replace(job, scalars=checked.scalars))
    if outcome.faults:
        raise RunError(DEVICE_FAULT, "; ".join(f"{fault.kind}: {fault.message}" for fault in outcome.faults))
    return Result(outputs_of(job, outcome))


def _inputs(manifest: Manifest) -> tuple[ArrayArgument, ...]:
    return tuple(a for a in manifest.arguments if isinstance(a, ArrayArgument) and a.role != "output")


def _check_names(manifest: Manifest, arguments: Mapping[str, Any]) -> None:
    """RunError unless exactly the inputs and scalars are given; params are optional."""
    outputs = [a.name for a in manifest.arguments if isinstance(a, ArrayArgument) and a.role == "output"]
    known = [a.name for a in manifest.arguments if a.name not in outputs]
    for name in arguments:
        if name in outputs:
            raise RunError(
                UNKNOWN_ARGUMENT, f"`{name}` is an output of {manifest.kernel}", "leave it out: it is returned"
            )
        if name not in known:
            help = did_you_mean(name, known, what="arguments")
            raise RunError(UNKNOWN_ARGUMENT, f"`{name}` is no argument of {manifest.kernel}", help)
    for a in manifest.arguments:
        if a.name in known and a.name not in arguments and not isinstance(a, ParamArgument):
            kind = "array" if isinstance(a, ArrayArgument) else "number"
            cure = wording.pass_by_name(a.name)
            raise RunError(MISSING_ARGUMENT, f"{manifest.kernel} needs the {kind} `{a.name}` ({a.dtype})", cure)


def _dynamic_params(
    manifest: Manifest, inputs: Mapping[str, NDArray[Any]], arguments: Mapping[str, Any]
) -> dict[str, int]:
    """Values of dynamic params: given, or the first extent of an input that equals the param."""
    values: dict[str, int] = {}
    for param in manifest.arguments:
        if not isinstance(param, ParamArgument):
            continue
        deduced = [
            extent
            for a in _inputs(manifest)
            for size, extent in zip(a.shape, inputs[a.name].shape, strict=False)
            if size == param.name
        ]
        if param.name in arguments:
            values[param.name] = int(arguments[param.name])
        elif deduced:
            values[param.name] = deduced[0]
        else:
            message = f"{manifest.kernel} needs the param `{param.name}`, which can't be deduced from a shape"
            raise RunError(MISSING_ARGUMENT, message, wording.pass_by_name(param.name))
    return values
