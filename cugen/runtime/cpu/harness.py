"""The harness: a C++ file that includes the .cu and lists its kernels and variables for the runtime."""

from __future__ import annotations

from collections.abc import Iterable

from cugen.abi.manifest import Manifest
from cugen.runtime.cpu.source import Declarations

HARNESS_NAME = "harness.cpp"
_REDZONE_BYTES = 4096  # after dynamic shared memory; poisoned by the sanitizer
# In the default model an offset is part of the address: that of an access that never runs may be too large for it.
_THREAD_LOCAL = ' thread_local __attribute__((tls_model("initial-exec")))'


def harness(manifest: Manifest, declared: Declarations, *, one_worker: bool) -> str:
    """Text of the harness. Shared arrays are static with one worker, for sanitizers and traces, else thread-local."""
    return "\n".join(
        [
            "#include <cugen_cpu.h>",
            *_shared_macros(declared, one_worker),
            f'#include "{manifest.kernel}.cu"',
            *_dynamic_arrays(manifest, declared, one_worker),
            *_tables(manifest, declared),
            "",
        ]
    )


def _shared_macros(declared: Declarations, one_worker: bool) -> Iterable[str]:
    for line in range(1, declared.lines + 1):
        if line in declared.dynamic_lines:
            yield f"#define cugen_shared_{line} {'' if one_worker else '__thread'}".rstrip()
        else:
            yield f"#define cugen_shared_{line} static{'' if one_worker else _THREAD_LOCAL}"


def _dynamic_arrays(manifest: Manifest, declared: Declarations, one_worker: bool) -> Iterable[str]:
    """Definitions of the dynamic shared arrays: one symbol each, independent of the element type."""
    size = max((launch.dynamic_shared_bytes for launch in manifest.launches), default=0) + _REDZONE_BYTES
    storage = "" if one_worker else "__thread "
    yield '#if defined(__APPLE__)\n#define CUGEN_LABEL(name) "_" name\n#else\n#define CUGEN_LABEL(name) name\n#endif'
    for number, name in enumerate(declared.dynamic):
        label = f'__asm__(CUGEN_LABEL("{name}"))'
        yield f"{storage}unsigned char cugen_dynamic_{number}[{size}] {label} __attribute__((aligned(1024)));"


def _tables(manifest: Manifest, declared: Declarations) -> Iterable[str]:
    kernels = {launch.kernel: launch.cluster for launch in manifest.launches}
    variables = list(dict.fromkeys([*(upload.symbol for upload in manifest.uploads), *declared.globals]))
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
    for number, name in enumerate(declared.dynamic):
        yield f'    case {number}: return {{"{name}", cugen_dynamic_{number}, sizeof cugen_dynamic_{number}}};'
    yield "    default: return {};"
    yield "  }"
    yield "}"
    yield (
        f"const cugen::Program cugen::program = {{cugen_kernels, {len(kernels)}, cugen_variables, {len(variables)}, "
        f"cugen_dynamic_shared, {len(declared.dynamic)}}};"
    )
