"""C names of element types, and C literals."""

from __future__ import annotations

import math
import struct

from cugen.spec.types import DType, Kind

_C_NAMES = {
    "float64": "double",
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float8_e4m3": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "bool": "bool",
}
_HEADERS = {
    "float16": "cuda_fp16.h",
    "bfloat16": "cuda_bf16.h",
    "float8_e4m3": "cuda_fp8.h",
    "float8_e5m2": "cuda_fp8.h",
}
# Types of the bit patterns in C, where CUDA's headers define the classes for C++ only.
_NAMES_IN_C = {
    "float16": "__half_raw",
    "bfloat16": "__nv_bfloat16_raw",
    "float8_e4m3": "__nv_fp8_storage_t",
    "float8_e5m2": "__nv_fp8_storage_t",
}
# Loads widen narrow floats; stores round to nearest even (to float8 with saturation).
_WIDEN = {"float16": "__half2float({})", "bfloat16": "__bfloat162float({})"}
_OF_BITS = {"bfloat16": "__ushort_as_bfloat16({})"}  # textures have no channel format of the type
_NARROW = {"float16": "__float2half_rn({})", "bfloat16": "__float2bfloat16_rn({})"}


def c_name(dtype: DType) -> str:
    return _C_NAMES[dtype.name]


def header_of(dtype: DType) -> str | None:
    """CUDA header of the type; None for built-in types."""
    return _HEADERS.get(dtype.name)


def declaration_in_c(dtype: DType) -> str | None:
    """What declares the type in C: the header of bool, a typedef of a C++ class name; None for built-in types."""
    if dtype.kind is Kind.BOOL:
        return "#include <stdbool.h>"
    plain = _NAMES_IN_C.get(dtype.name)
    return f"typedef {plain} {c_name(dtype)};" if plain else None


def widened(text: str, dtype: DType) -> str:
    """Conversion of a stored element to its compute type."""
    if dtype.name in _WIDEN:
        return _WIDEN[dtype.name].format(text)
    return f"float({text})" if dtype.compute != dtype else text


def fetched(text: str, dtype: DType) -> str:
    """An element in its compute type, of what a texture fetch returns: that, or the bits of the element."""
    return widened(stored(text, dtype), dtype) if dtype.name in _OF_BITS else text


def stored(text: str, dtype: DType) -> str:
    """An element in its storage type, of what a texture fetch returns."""
    return _OF_BITS[dtype.name].format(text) if dtype.name in _OF_BITS else narrowed(text, dtype)


def narrowed(text: str, dtype: DType) -> str:
    """Conversion of a value of the compute type to the storage type."""
    if dtype.name in _NARROW:
        return _NARROW[dtype.name].format(text)
    return f"{c_name(dtype)}({text})" if dtype.compute != dtype else text


def literal(value: int | float | bool, dtype: DType) -> str:
    """A literal of a compute type, with its sign; `CUDART_` macros for infinities and NaN."""
    if dtype.name == "bool":
        return "true" if value else "false"
    if dtype.is_float:
        return _float(float(value), single=dtype.bits <= 32)
    number = int(value)
    if dtype.name == "int64":
        return "(-9223372036854775807LL - 1)" if number == -(2**63) else f"{number}LL"
    if dtype.name == "int32" and number == -(2**31):
        return "(-2147483647 - 1)"
    return f"{number}{ {'uint64': 'ULL', 'uint32': 'U'}.get(dtype.name, '') }"


def constant_literal(value: int | float | bool, dtype: DType) -> str:
    """A literal in an initialiser at file scope, where the `CUDART_` macros are no constant expressions."""
    if not dtype.is_float or math.isfinite(value):
        return literal(value, dtype)
    suffix = "f" if dtype.bits <= 32 else ""
    sign = "-" if value == -math.inf else ""
    return f"{sign}{0 if math.isnan(value) else 1}.0{suffix} / 0.0{suffix}"


def _float(value: float, *, single: bool) -> str:
    suffix = "f" if single else ""
    named = "_F" if single else ""
    if math.isnan(value):
        return f"CUDART_NAN{named}"
    if math.isinf(value) or (single and abs(value) > 3.4028235677973366e38):
        return f"{'-' if value < 0 else ''}CUDART_INF{named}"
    text = _shortest_single(value) if single else repr(value)
    if "e" not in text and "." not in text:
        text += ".0"
    return text + suffix


def _shortest_single(value: float) -> str:
    """Shortest decimal that round-trips as float."""
    bits = struct.pack("f", value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("f", float(text)) == bits:
            break
    number = float(text)
    return repr(number) if 1e-4 <= abs(number) < 1e7 or number == 0 else text
