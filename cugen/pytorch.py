"""Kernels as PyTorch operators, for `torch.compile`, `torch.export` and CUDA graphs."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from cugen.abi.codes import WRONG_DEVICE
from cugen.abi.errors import RunError
from cugen.abi.manifest import ArrayArgument
from cugen.kernel import Kernel, generate
from cugen.runtime.call.callable import GpuFunction
from cugen.runtime.call.signature import Signature, extents, signature_of
from cugen.spec.model import Spec

_TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn"}
_NAMES = {torch: ours for ours, torch in _TORCH_NAMES.items()}
_HASH_DIGITS = 8
_operators: dict[str, Any] = {}
_making = threading.Lock()


def torch_op(kernel_or_spec: Kernel | Spec, /) -> Any:
    """The kernel as an operator `cugen::<kernel>_<hash>`: `y = op(x)`.

    Parameters are the inputs in the order of the spec, scalars without a value, and dynamic params that can't be
    deduced from an input; it returns new tensors in the layout of the spec and updates `inout` arrays in place. On GPU
    tensors it runs asynchronously on the current stream of their GPU, with workspaces of PyTorch's allocator, and can
    be captured in a CUDA graph after a first call has compiled the kernel. On CPU tensors it runs on the CPU device.
    Threads may call it at once. Gradients are registered by `op.register_autograd(…)`.

    A spec without a target is generated for the architecture-specific one of the current GPU, such as `sm_90a`.
    SpecError where a spec can't be generated; calls raise RunError for invalid tensors (CG5002 to CG5009), and on a GPU
    of another architecture (CG5017).
    """
    torch = importlib.import_module("torch")
    if isinstance(kernel_or_spec, Spec):
        kernel_or_spec = generate(kernel_or_spec.for_device(_capability(torch)))
    kernel = kernel_or_spec
    name = f"cugen::{kernel.name}_{kernel.manifest.source_hash[:_HASH_DIGITS]}"
    with _making:
        if name not in _operators:
            operator = _Operator(torch, kernel)
            signature = operator.signature
            made = torch.library.custom_op(name, operator, mutates_args=signature.updated, schema=signature.schema)
            made.register_fake(operator.outputs)
            _operators[name] = made
    return _operators[name]


def _capability(torch: Any) -> str:
    """Compute capability of the current GPU, such as `sm_90`; empty without one."""
    return "sm_{}{}".format(*torch.cuda.get_device_capability()) if torch.cuda.is_available() else ""


class _Operator:
    """Implementation of an operator; `torch` is the module."""

    __name__ = "cugen"

    def __init__(self, torch: Any, kernel: Kernel) -> None:
        self.signature: Signature = signature_of(kernel.manifest)
        self._torch = torch
        self._gpu = GpuFunction(kernel.source, kernel.manifest)
        self._cpu = kernel.compile("cpu")

    def __repr__(self) -> str:
        return f"<operator of {self._gpu.manifest.signature}>"

    def __call__(self, *values: Any) -> Any:
        outputs = self._outputs(values)
        names = [array.name for array in self.signature.outputs]
        arguments = {
            **dict(zip(self.signature.names, values, strict=True)),
            **dict(zip(names, outputs, strict=True)),
        }
        tensors = [value for value in arguments.values() if isinstance(value, self._torch.Tensor)]
        device = tensors[0].device
        for name, value in arguments.items():
            if isinstance(value, self._torch.Tensor) and value.device != device:
                message = f"`{name}` is on {value.device}, another array of the call on {device}"
                raise RunError(WRONG_DEVICE, message, "move all of them to one device")
        plain = {name: self._plain(value) for name, value in arguments.items()}
        if device.type == "cuda":
            self._on_gpu(device, plain)
        elif device.type == "cpu":
            self._cpu(plain)
        else:
            raise RunError(WRONG_DEVICE, f"kernels run on CUDA GPUs and the CPU; `{names[0]}` is on {device}")
        return _returned(outputs)

    def outputs(self, *values: Any) -> Any:
        """New tensors of the outputs' shapes, types and layouts."""
        return _returned(self._outputs(values))

    def _outputs(self, values: Sequence[Any]) -> list[Any]:
        given = dict(zip(self.signature.names, values, strict=True))
        for array in self.signature.inputs:
            name = str(given[array.name].dtype).removeprefix("torch.")
            self.signature.check_dtype(array, _NAMES.get(name, name))
        shapes = {array.name: tuple(given[array.name].shape) for array in self.signature.inputs}
        params = self.signature.sizes(shapes, {param.name: given[param.name] for param in self.signature.params})
        device = next((given[array.name].device for array in self.signature.inputs), None)
        return [self._empty(array, params, device) for array in self.signature.outputs]

    def _empty(self, array: ArrayArgument, params: Mapping[str, int], device: Any) -> Any:
        dtype = getattr(self._torch, _TORCH_NAMES.get(array.dtype, array.dtype))
        shape, strides = extents(array.shape, params), extents(array.strides, params)
        return self._torch.empty_strided(shape, strides, dtype=dtype, device=device)

    def _on_gpu(self, device: Any, arguments: Mapping[str, Any]) -> None:
        torch = self._torch
        workspaces: list[Any] = []  # alive until all is enqueued; then the allocator is stream-ordered

        def allocate(size: int) -> int:
            workspaces.append(torch.empty(size, dtype=torch.uint8, device=device))
            return int(workspaces[-1].data_ptr())

        with torch.cuda.device(device):
            self._gpu.queue(arguments, torch.cuda.current_stream(device).cuda_stream, allocate, device.index)

    def _plain(self, value: Any) -> Any:
        """Detached tensors: those that require grad don't export their memory."""
        return value.detach() if isinstance(value, self._torch.Tensor) else value


def _returned(outputs: Sequence[Any]) -> Any:
    """Return value of an operator: None, a tensor, or a tuple."""
    return tuple(outputs) if len(outputs) > 1 else next(iter(outputs), None)
