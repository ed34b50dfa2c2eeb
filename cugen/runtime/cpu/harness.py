"""The C++ file that takes in the .cu under its own name and lists its kernels and variables for the runtime."""

from __future__ import annotations

from collections.abc import Iterable

from cugen.abi.manifest import Manifest
from cugen.runtime.cpu.source import Declarations

HARNESS_NAME = "harness.cpp"
_SPARE_BYTES = 4096  # beyond what any launch may use, so that the sanitizer has something to poison


def harness(manifest: Manifest, found: Declarations, *, one_worker: bool) -> str:
    """The text of the harness. With one worker shared arrays are plain statics, which a sanitizer can fence and a
    trace can name; else they are thread-local, one set for each worker."""
    return "\n".join(
        [
            "#include <cugen_cpu.h>",
            *_shared_macros(found, one_worker),
            f'#include "{manifest.kernel}.cu"',
            *_dynamic_arrays(manifest, found, one_worker),
            *_tables(manifest, found),
            "",
        ]
    )


def _shared_macros(found: Declarations, one_worker: bool) -> Iterable[str]:
    for line in range(1, found.lines + 1):
        if line in found.dynamic_lines:
            yield f"#define cugen_shared_{line} {'' if one_worker else '__thread'}".rstrip()
        else:
            yield f"#define cugen_shared_{line} static{'' if one_worker else ' thread_local'}"


def _dynamic_arrays(manifest: Manifest, found: Declarations, one_worker: bool) -> Iterable[str]:
    """Definitions of the dynamic arrays: each is one symbol, whatever element type the kernels give it."""
    size = max((launch.dynamic_shared_bytes for launch in manifest.launches), default=0) + _SPARE_BYTES
    storage = "" if one_worker else "__thread "
    yield '#if defined(__APPLE__)\n#define CUGEN_LABEL(name) "_" name\n#else\n#define CUGEN_LABEL(name) name\n#endif'
    for number, name in enumerate(found.dynamic):
        label = f'__asm__(CUGEN_LABEL("{name}"))'
        yield f"{storage}unsigned char cugen_dynamic_{number}[{size}] {label} __attribute__((aligned(1024)));"


def _tables(manifest: Manifest, found: Declarations) -> Iterable[str]:
    kernels = {launch.kernel: launch.cluster for launch in manifest.launches}
    variables = list(dict.fromkeys([*(upload.symbol for upload in manifest.uploads), *found.globals]))
    yield "static const cugen::Kernel cugen_kernels[] = {"
    yield from (f'    cugen::kernel<&{name}>("{name}", {cluster}),' for name, cluster in kernels.items())
    yield "    {}};"
    yield "static const cugen::Symbol cugen_variables[] = {"
    yield from (
        f'    {{"{name}", const_cast<void*>((const volatile void*)&{name}), sizeof {name}}},' for name in variables
    )
    yield "    {}};"
    yield "static cugen::Symbol cugen_dynamic_shared(size_t index) {"
    yield "  switch (index) {"
    for number, name in enumerate(found.dynamic):
        yield f'    case {number}: return {{"{name}", cugen_dynamic_{number}, sizeof cugen_dynamic_{number}}};'
    yield "    default: return {};"
    yield "  }"
    yield "}"
    yield (
        f"const cugen::Program cugen::program = {{cugen_kernels, {len(kernels)}, cugen_variables, {len(variables)}, "
        f"cugen_dynamic_shared, {len(found.dynamic)}}};"
    )
