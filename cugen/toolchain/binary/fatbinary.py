"""Fat binaries: machine code of several targets in one file."""

from __future__ import annotations

from collections.abc import Mapping

from cugen import temporary
from cugen.toolchain import locations, process
from cugen.toolchain.errors import ToolMissing

_CURE = (
    "pip install 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm]==13.0.*', or install CUDA's toolkit and put its bin folder "
    "on PATH; for one target, a cubin needs no fatbinary"
)


def pack(cubins: Mapping[str, bytes], ptx: Mapping[str, str]) -> bytes:
    """The fat binary of these images by target ("sm_90"). Deterministic; the PTX is for newer GPUs. ToolMissing without
    the program `fatbinary`."""
    program = locations.program("fatbinary")
    if program is None:
        raise ToolMissing("fatbinary, which packs several targets into one file,", _CURE)
    with temporary.working_folder() as folder:
        options = []
        for target, image in cubins.items():
            (folder / f"{target}.cubin").write_bytes(image)
            options.append(f"--image3=kind=elf,sm={target.removeprefix('sm_')},file={target}.cubin")
        for target, text in ptx.items():
            (folder / f"{target}.ptx").write_text(text)
            options.append(f"--image3=kind=ptx,sm={target.removeprefix('sm_')},file={target}.ptx")
        process.compile_with([str(program), "-64", "--create=image.fatbin", *options], "image.fatbin", folder)
        return (folder / "image.fatbin").read_bytes()
