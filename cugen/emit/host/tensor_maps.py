"""Tensor maps in the launchers: the driver's words for element types and swizzles."""

from __future__ import annotations

_TYPES = {
    "int8": "UINT8",
    "uint8": "UINT8",
    "float8_e4m3": "UINT8",
    "float8_e5m2": "UINT8",
    "int32": "INT32",
    "uint32": "UINT32",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT32",
}


def data_type(dtype: str, *, tf32: bool) -> str:
    """The CUtensorMapDataType of an element type; with `tf32` float32 is rounded when it is loaded."""
    return f"CU_TENSOR_MAP_DATA_TYPE_{'TFLOAT32' if tf32 else _TYPES[dtype]}"


def swizzle_mode(row_bytes: int) -> str:
    """The CUtensorMapSwizzle of rows of so many bytes; 0 for none."""
    return f"CU_TENSOR_MAP_SWIZZLE_{f'{row_bytes}B' if row_bytes else 'NONE'}"
