"""Resources of the kernels of a cubin, from its ELF sections.

A cubin is a little-endian 64-bit ELF file. `.text.<kernel>` holds the code, `.nv.shared.<kernel>` has the size of the
static shared memory, `.nv.constant3` that of all `__constant__` variables. `.nv.info` is a list of records
(format byte, attribute byte, 16-bit value or length, payload); the records used here pair a symbol with a number.
Those of `.nv.info.<kernel>` describe its parameters.
NVIDIA doesn't document the attributes: the tests compare what is read here with what `ptxas -v` prints.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SYMBOLS = 2  # SHT_SYMTAB
_NO_BITS = 8  # SHT_NOBITS: the section has a size and no contents
_FUNCTION = 2  # STT_FUNC
_OBJECT = 1  # STT_OBJECT
_GLOBAL = 1  # STB_GLOBAL
_SIZED_PAYLOAD = 4  # EIFMT_SVAL
_FRAME_SIZE = 0x11  # EIATTR_FRAME_SIZE: bytes of stack
_REGISTER_COUNT = 0x2F  # EIATTR_REGCOUNT
_PARAMETER = 0x17  # EIATTR_KPARAM_INFO: zeros, number, offset, and a word with the size from bit 18 on
_RESERVED_SHARED = 1024  # shared memory per block reserved by the system; included in the section from sm_90 on


@dataclass(frozen=True, slots=True)
class KernelSection:
    """Resources of one kernel. `shared_bytes` is static; `stack_bytes` is the frame in local memory, per thread."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    argument_bytes: int  # of constant bank 0: driver data and the arguments
    constant_bytes: int  # all __constant__ variables of the module


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel. `offset` counts from the first parameter's place in constant bank 0; one that is aligned
    to more than 16 bytes has an offset of its architecture, since the bank also has data of the driver in front."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int


def kernels(image: bytes) -> dict[str, KernelSection]:
    """Each kernel of a cubin, by name, sorted. ValueError where `image` is no cubin."""
    try:
        return _kernels(image)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"a damaged cubin: {error}") from error


def _kernels(image: bytes) -> dict[str, KernelSection]:
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a cubin: no little-endian 64-bit ELF header")
    sections = _sections(image)
    sizes = {section.name: section.size for section in sections}
    symbols = _symbols(image, sections)
    registers = _attribute(image, sections, symbols, _REGISTER_COUNT)
    frames = _attribute(image, sections, symbols, _FRAME_SIZE)
    reserved = _RESERVED_SHARED if ".nv.shared.reserved.0" in sizes else 0
    kernels = {}
    for name, is_kernel in sorted(symbols.values()):
        if not is_kernel:
            continue
        shared = sizes.get(f".nv.shared.{name}", 0)
        kernels[name] = KernelSection(
            registers=registers.get(name, 0),
            shared_bytes=max(0, shared - reserved),
            stack_bytes=frames.get(name, 0),
            argument_bytes=sizes.get(f".nv.constant0.{name}", 0),
            constant_bytes=sizes.get(".nv.constant3", 0),
        )
    return kernels


def _sections(image: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", image, 40)
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * entry_size) for i in range(count)]
    names = rows[names_index][4]
    return [_Section(_text(image, names + row[0]), row[1], row[4], row[5], row[6]) for row in rows]


def _symbols(image: bytes, sections: list[_Section]) -> dict[int, tuple[str, bool]]:
    """Symbol number -> (name, whether it is a kernel: a global function with code here)."""
    symbols = {}
    for section in sections:
        if section.kind != _SYMBOLS:
            continue
        strings = sections[section.link].offset
        for number in range(section.size // 24):
            name, info, _, index = struct.unpack_from("<IBBH", image, section.offset + 24 * number)
            is_kernel = info & 15 == _FUNCTION and info >> 4 == _GLOBAL and index != 0
            symbols[number] = (_text(image, strings + name), is_kernel)
    return symbols


def _attribute(
    image: bytes, sections: list[_Section], symbols: Mapping[int, tuple[str, bool]], attribute: int
) -> dict[str, int]:
    section = next((s for s in sections if s.name == ".nv.info" and s.kind != _NO_BITS), None)
    if section is None:
        return {}
    payloads = _records(image[section.offset : section.offset + section.size], attribute)
    pairs = (struct.unpack_from("<II", payload) for payload in payloads)
    return {symbols[symbol][0]: value for symbol, value in pairs if symbol in symbols}


def _records(content: bytes, attribute: int) -> Iterator[bytes]:
    position = 0
    while position + 4 <= len(content):
        form, kind, size = struct.unpack_from("<BBH", content, position)
        position += 4
        if form == _SIZED_PAYLOAD:
            if kind == attribute:
                yield content[position : position + size]
            position += size


def _text(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode()


def section(image: bytes, name: str) -> bytes:
    """Contents of a section, such as `.nv.constant2.<kernel>`; empty where there is none."""
    match = next((s for s in _sections(image) if s.name == name and s.kind != _NO_BITS), None)
    return image[match.offset : match.offset + match.size] if match else b""


def parameters(image: bytes, kernel: str) -> tuple[Parameter, ...]:
    """The parameters of a kernel, in order."""
    records = _records(section(image, f".nv.info.{kernel}"), _PARAMETER)
    fields = sorted(struct.unpack("<4xHHI", record) for record in records)
    return tuple(Parameter(offset, word >> 18) for _, offset, word in fields)


def constants(image: bytes) -> dict[str, tuple[int, int]]:
    """Offset and bytes in constant bank 3 of each `__constant__` variable, by name, in order of the offsets."""
    sections = _sections(image)
    variables: dict[str, tuple[int, int]] = {}
    for table in sections:
        if table.kind != _SYMBOLS:
            continue
        for number in range(table.size // 24):
            name, info, _, index, offset, size = struct.unpack_from("<IBBHQQ", image, table.offset + 24 * number)
            if info & 15 == _OBJECT and index < len(sections) and sections[index].name == ".nv.constant3":
                variables[_text(image, sections[table.link].offset + name)] = (offset, size)
    return dict(sorted(variables.items(), key=lambda item: item[1]))
