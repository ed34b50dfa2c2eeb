"""Disassembly of cubins by nvdisasm."""

from __future__ import annotations

import tempfile
from pathlib import Path

from cugen.toolchain import locations, process
from cugen.toolchain.errors import ToolMissing

_CURE = "pip install nvidia-cuda-nvdisasm, or install CUDA's toolkit and put its bin folder on PATH"


def disassemble(cubin: bytes, *, lines: bool = True) -> str:
    """SASS of every kernel in `cubin`, with the lines of the .cu where `lines`. ToolMissing without nvdisasm."""
    program = locations.program("nvdisasm")
    if program is None:
        raise ToolMissing("nvdisasm", _CURE)
    with tempfile.TemporaryDirectory(prefix="cugen-") as folder:
        (Path(folder) / "image.cubin").write_bytes(cubin)
        options = ["--print-code", *(["--print-line-info-inline"] if lines else [])]
        return process.compile_with([str(program), *options, "image.cubin"], "image.cubin", Path(folder))
