"""Device helper functions of kernels, one template each."""

from __future__ import annotations

import jinja2

from cugen.emit.printer.ctypes import c_name
from cugen.emit.printer.tensor_copies import tensor_copy_of
from cugen.emit.printer.wgmma import wgmma_variables
from cugen.machine.wgmma import instruction_of_name
from cugen.spec.parse.keys import LOAD_OPERATORS, STORE_OPERATORS
from cugen.spec.types import DTYPES

# Accesses with a cache operator by the functions of CUDA, and by PTX for targets without these.
_CACHED = (*(f"load_{name}" for name in LOAD_OPERATORS), *(f"store_{name}" for name in STORE_OPERATORS))
_PTX = tuple(f"{name}_ptx" for name in _CACHED)


def function_text(env: jinja2.Environment, name: str, kind: str, *, host: bool = False) -> str:
    """A helper for the C type `kind`, or a template over types where it is empty, with an include guard. With `host`
    it is callable from the launcher too."""
    text = _definition(env, name, kind)
    if host:
        text = text.replace("__device__", "__host__ __device__", 1)
    guard = "_".join(["CUGEN", name, *kind.split()]).upper()
    return f"#ifndef {guard}\n#define {guard}\n{text.strip()}\n#endif\n"


def host_function_text(env: jinja2.Environment, name: str, kind: str) -> str:
    """A helper in plain C++, for a program on the host."""
    text = _definition(env, name, kind)
    return text.replace("__device__ __forceinline__", "inline").replace("__device__ inline", "inline").rstrip()


def _definition(env: jinja2.Environment, name: str, kind: str) -> str:
    if (instruction := instruction_of_name(name)) is not None:
        return env.get_template("functions/wgmma.cu.j2").render(wgmma_variables(*instruction))
    if (tensor_copy := tensor_copy_of(name)) is not None:
        template, variables = tensor_copy
        return env.get_template(f"functions/{template}.cu.j2").render(variables)
    if name in (*_CACHED, *_PTX):
        access, operator = name.split("_")[:2]
        short = {"load": "ld", "store": "st"}[access]
        ptx = f"{short}.global.{operator}"
        variables = {"name": name, "function": f"__{short}{operator}", "instruction": ptx}
        template = f"{access}_{'ptx' if name in _PTX else 'cached'}"
        return env.get_template(f"functions/{template}.cu.j2").render(variables, how=f"by {ptx}")
    return env.get_template(f"functions/{name}.cu.j2").render(_variables(kind) if kind else {})


def _variables(kind: str) -> dict[str, str | int | bool]:
    """Template variables of an element type, by its C name."""
    dtype = next(t for t in DTYPES.values() if c_name(t) == kind)
    return {
        "T": kind,
        "U": "unsigned long long" if dtype.bits == 64 else "unsigned int",
        "bits": dtype.bits,
        "is_float": dtype.is_float,
        "is_float32": dtype.name == "float32",
        "is_signed": dtype.name.startswith("int"),
        "suffix": "f" if dtype.name == "float32" else "",
    }
