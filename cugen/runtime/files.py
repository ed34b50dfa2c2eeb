"""Input arrays from .npy, .npz and image files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cugen.abi.codes import FILE_UNREADABLE, WRONG_DTYPE, WRONG_SHAPE
from cugen.abi.errors import RunError
from cugen.reference.storage import numpy_dtype, store
from cugen.spec.types import DType, Kind

_IMAGES = (".png", ".jpg", ".jpeg")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def read(name: str, path: Path, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """Contents of `path` for array `name`, in its shape and type.

    Of a .npz the entry `name` is read. An image fills [H, W] (grey), [H, W, C] or [C, H, W] with 1, 3 or 4 channels, as
    bytes for uint8 and scaled to 0 .. 1 for floats. RunError: CG5001 unreadable, CG5002 shape, CG5003 type.
    """
    _check_exists(name, path)
    if path.suffix.lower() in _IMAGES:
        return _read_image(name, path, shape, dtype)
    return fit(name, _load(name, path), shape, dtype)


def shape_in(name: str, path: Path) -> tuple[int, ...] | None:
    """Shape of the array for `name` in a .npy or .npz; None for an image. RunError CG5001."""
    _check_exists(name, path)
    return None if path.suffix.lower() in _IMAGES else _load(name, path, mode="r").shape


def _check_exists(name: str, path: Path) -> None:
    if not path.is_file():
        raise RunError(FILE_UNREADABLE, f"input for `{name}`: there is no file {path}")


def _load(name: str, path: Path, mode: Literal["r"] | None = None) -> NDArray[Any]:
    """The array of a .npy, or the entry `name` of a .npz; mapped into memory with `mode` "r"."""
    try:
        content = np.load(path, mmap_mode=mode, allow_pickle=False)
        if isinstance(content, np.lib.npyio.NpzFile):
            with content:
                if name not in content.files:
                    known = ", ".join(content.files) or "nothing"
                    raise RunError(
                        FILE_UNREADABLE, f"input for `{name}`: {path} has no entry of that name; it has {known}"
                    )
                content = content[name]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        # NumPy takes unknown formats for pickles.
        why = "unknown format" if "contains pickled" in str(error) else str(error)
        raise RunError(
            FILE_UNREADABLE,
            f"input for `{name}`: {path} is no readable .npy, .npz, .png or .jpg file: {why}",
            "arrays of Python objects (pickles) are never loaded",
        ) from error
    return np.asarray(content)


def fit(name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """`array` in the type of the array `name`. RunError: CG5002 shape, CG5003 type.

    Only lossless conversions are made. bfloat16 and float8, which .npy has no names for, are read from raw bytes, as
    ml_dtypes saves them, or rounded from float32.
    """
    if array.shape != shape:
        raise RunError(
            WRONG_SHAPE, f"input for `{name}` has shape {_shape(array.shape)}; the spec says {_shape(shape)}"
        )
    expected = numpy_dtype(dtype)
    if array.dtype == expected:
        return array
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == expected.itemsize:
        return array.view(expected)
    if dtype.name in ("bfloat16", "float8_e4m3", "float8_e5m2"):
        if array.dtype == np.float32:
            return store(array.astype(np.float64), dtype)
    elif np.can_cast(array.dtype, expected, "safe"):
        return array.astype(expected)
    raise RunError(
        WRONG_DTYPE,
        f"input for `{name}` holds {array.dtype}; the spec says {dtype.name}, to which the conversion is lossy",
        f"convert it explicitly: array.astype({expected.name!r})",
    )


def _read_image(name: str, path: Path, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise RunError(
            FILE_UNREADABLE, f"input for `{name}`: reading {path.name} needs Pillow", "pip install 'cugen[images]'"
        ) from error
    if not (dtype.is_float or (dtype.kind is Kind.UINT and dtype.bits == 8)):
        raise RunError(WRONG_DTYPE, f"input for `{name}`: an image fills uint8 and float arrays, not {dtype.name}")
    try:
        with Image.open(path) as image:
            channels, first = _channels(name, shape, (image.height, image.width))
            pixels = np.asarray(image.convert(_MODES[channels]))
    except (UnidentifiedImageError, OSError) as error:
        raise RunError(FILE_UNREADABLE, f"input for `{name}`: {path} is no readable image: {error}") from error
    pixels = pixels.reshape(*pixels.shape[:2], channels)
    if first:
        pixels = np.moveaxis(pixels, -1, 0)
    elif len(shape) == 2:
        pixels = pixels[..., 0]
    if pixels.shape != shape:
        raise RunError(
            WRONG_SHAPE,
            f"input for `{name}`: the image {path.name} gives {_shape(pixels.shape)}; the spec says {_shape(shape)}",
            "resize the image, or set the params to its size with --set",
        )
    return store(pixels.astype(np.float64) / 255.0, dtype) if dtype.is_float else pixels


def _channels(name: str, shape: tuple[int, ...], size: tuple[int, int]) -> tuple[int, bool]:
    """Channels of an array of `shape`, and whether they are the first dimension.

    `size`, height and width, decides where both are possible."""
    match shape:
        case (_, _):
            return 1, False
        case (1 | 3 | 4, *plane) if tuple(plane) == size:
            return shape[0], True
        case (_, _, 1 | 3 | 4):
            return shape[2], False
        case (1 | 3 | 4, _, _):
            return shape[0], True
    raise RunError(
        WRONG_SHAPE,
        f"input for `{name}`: an image fills [H, W], [H, W, C] or [C, H, W] with 1, 3 or 4 channels, "
        f"not {_shape(shape)}",
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
