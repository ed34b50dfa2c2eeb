"""Input arrays from .npy, .npz and image files, and outputs to .npy and image files."""

from __future__ import annotations

import importlib
import io
import warnings
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cugen.abi.codes import FILE_UNREADABLE, WRONG_DTYPE, WRONG_SHAPE
from cugen.abi.errors import RunError
from cugen.reference.storage import numpy_dtype, store
from cugen.spec.types import DType, Kind
from cugen.toolchain.errors import ToolMissing

_IMAGES = (".png", ".jpg", ".jpeg")
OUTPUTS = (".npy", *_IMAGES)
_MAX_JPEG_SIDE = 65500  # pixels, of libjpeg
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def read(name: str, path: Path, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """Contents of `path` for array `name`, in its shape and type.

    Of a .npz the entry `name` is read. An image fills [H, W] (grey), [H, W, C] or [C, H, W] with 1, 3 or 4 channels, as
    bytes for uint8 and scaled to 0 .. 1 for floats. RunError: CG5001 unreadable, CG5002 shape, CG5003 type. ToolMissing
    for an image without Pillow.
    """
    _check_exists(name, path)
    if path.suffix.lower() in _IMAGES:
        return _read_image(name, path, shape, dtype)
    return fit(name, _load(name, path), shape, dtype)


def shape_in(name: str, path: Path) -> tuple[int, ...] | None:
    """Shape of the array for `name` in a .npy or .npz; None for an image. RunError CG5001."""
    _check_exists(name, path)
    return None if path.suffix.lower() in _IMAGES else _load(name, path, mode="r").shape


def check_output(name: str, path: Path, shape: tuple[int, ...], dtype: DType) -> None:
    """RunError where an output of this shape (CG5002) and type (CG5003) doesn't fit the image `path`, as for `read`; a
    JPEG has no fourth channel, and limited sides. A .npy takes all. ToolMissing for an image without Pillow."""
    suffix = path.suffix.lower()
    if suffix not in _IMAGES:
        return
    what, cure = f"output of `{name}`", f"save it as .npy: --output {name}={path.with_suffix('.npy')}"
    _pillow()
    _check_pixels(what, dtype, cure)
    channels, _ = _channels(what, shape, None, cure)
    if 0 in shape:
        raise RunError(WRONG_SHAPE, f"{what}: {_shape(shape)} has no pixels", cure)
    if suffix != ".png" and (channels == 4 or max(shape) > _MAX_JPEG_SIDE):
        lack = "no fourth channel" if channels == 4 else f"sides of at most {_MAX_JPEG_SIDE} pixels"
        cure = f"save it as .png: --output {name}={path.with_suffix('.png')}"
        raise RunError(WRONG_SHAPE, f"{what}: a JPEG has {lack}, and the array is {_shape(shape)}", cure)


def encode(path: Path, array: NDArray[Any]) -> bytes:
    """Contents of the file for an output that `check_output` allows. Floats of an image span 0 .. 1; what is outside
    is clipped, and NaN is 0."""
    content = io.BytesIO()
    if path.suffix.lower() not in _IMAGES:
        np.save(content, array)
        return content.getvalue()
    pixels = array
    if pixels.dtype != np.uint8:
        numbers = np.nan_to_num(array.astype(np.float64), nan=0.0)
        pixels = np.rint(np.clip(numbers, 0.0, 1.0) * 255.0).astype(np.uint8)
    channels, first = _channels("", array.shape, None)
    if first:
        pixels = np.moveaxis(pixels, 0, -1)
    if channels == 1:
        pixels = pixels.reshape(pixels.shape[:2])
    image = _pillow().fromarray(np.ascontiguousarray(pixels))
    image.save(content, "PNG" if path.suffix.lower() == ".png" else "JPEG")
    return content.getvalue()


def _check_exists(name: str, path: Path) -> None:
    if not path.is_file():
        raise RunError(FILE_UNREADABLE, f"input for `{name}`: there is no file {path}", help="check the path")


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
        is_pickle = any(words in why for words in ("Python objects", "Object arrays"))
        raise RunError(
            FILE_UNREADABLE,
            f"input for `{name}`: {path} is no readable .npy, .npz, .png or .jpg file: {why}",
            "arrays of Python objects (pickles) are never loaded" if is_pickle else "save it again, as by numpy.save",
        ) from error
    return np.asarray(content)


def fit(name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """`array` in the type of the array `name`. RunError: CG5002 shape, CG5003 type.

    Only lossless conversions are made. bfloat16 and float8, which .npy has no names for, are read from raw bytes, as
    ml_dtypes saves them, or rounded from float32.
    """
    if array.shape != shape:
        raise RunError(
            WRONG_SHAPE,
            f"input for `{name}` has shape {_shape(array.shape)}; the spec says {_shape(shape)}",
            "give it that shape, or the spec other params: sizes that are `dynamic` are those of the arrays",
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
    what = f"input for `{name}`"
    pillow = _pillow()
    _check_pixels(what, dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # twice as many pixels are an error
            with pillow.open(path) as image:
                channels, first = _channels(what, shape, (image.height, image.width))
                pixels = np.asarray(image.convert(_MODES[channels]))
    except (pillow.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
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


def _pillow() -> ModuleType:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ToolMissing("Pillow", "pip install 'cugen[images]'") from error


def _check_pixels(what: str, dtype: DType, cure: str = "") -> None:
    if not (dtype.is_float or (dtype.kind is Kind.UINT and dtype.bits == 8)):
        raise RunError(WRONG_DTYPE, f"{what}: an image is of uint8 or floats, not of {dtype.name}", cure)


def _channels(what: str, shape: tuple[int, ...], size: tuple[int, int] | None, cure: str = "") -> tuple[int, bool]:
    """Channels of an array of `shape`, and whether they are the first dimension.

    Where both are possible, `size`, an image's height and width, decides, and without it the last dimension is taken.
    """
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
        f"{what}: an image is [H, W], [H, W, C] or [C, H, W] with 1, 3 or 4 channels, not {_shape(shape)}",
        cure,
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
