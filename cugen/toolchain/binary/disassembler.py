"""Disassembly of cubins by nvdisasm."""

from __future__ import annotations

from typing import Literal

from cugen import temporary
from cugen.toolchain import locations, process
from cugen.toolchain.errors import ToolMissing

_CURE = "pip install nvidia-cuda-nvdisasm, or install CUDA's toolkit and put its bin folder on PATH"


_LINE_OPTIONS = {"source": ["--print-line-info-inline"], "ptx": ["--print-line-info-ptx"], None: []}


def disassemble(cubin: bytes, *, lines: Literal["source", "ptx"] | None = "source") -> str:
    """SASS of every kernel in `cubin`, with the lines of the .cu, of its PTX, or without. ToolMissing without
    nvdisasm."""
    program = locations.program("nvdisasm")
    if program is None:
        raise ToolMissing("nvdisasm", _CURE)
    with temporary.working_folder() as folder:
        (folder / "image.cubin").write_bytes(cubin)
        options = ["--print-code", *_LINE_OPTIONS[lines]]
        return process.compile_with([str(program), *options, "image.cubin"], "image.cubin", folder)
