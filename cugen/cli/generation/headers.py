"""Headers of several kernels: those that variants share, umbrella headers, and cugen_launch.hpp."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.generation.emission import Emission
from cugen.cli.generation.kernels import Made
from cugen.cli.specs import templates_of
from cugen.emit import files
from cugen.emit.inputs import launch_input_hash, shared_input_hash

if TYPE_CHECKING:
    from cugen.spec.siblings import Siblings


def variants_headers(
    groups: Sequence[Siblings], made: Sequence[Made], options: Emission, args: argparse.Namespace
) -> list[files.File]:
    """Headers shared by variants, all of which were made."""
    if not groups:
        return []
    from cugen.emit.host import variants

    entries = {result.texts.stem: result.entry for result in made if result.entry}
    headers = []
    for group in groups:
        stamp = shared_input_hash(group.specs, remarks=args.remarks, templates=templates_of(args))
        for api in options.apis:
            texts = variants.variants_headers(group, [entries[spec.kernel] for spec in group.specs], api)
            paths = files.header_paths(args.output, f"{group.name}{api.suffix}")
            for path, text in zip(paths, (texts.header, texts.typed_header), strict=True):
                headers.append(files.File(path, files.stamped(text, stamp).encode()))
    return headers


def umbrella_headers(
    stems: Sequence[str],
    made: Sequence[Made],
    headers: Sequence[files.File],
    options: Emission,
    args: argparse.Namespace,
) -> list[files.File]:
    """Umbrella headers of the kernels and groups called `stems`. The description of each included header is its title,
    read from disk if it is current: neither among those of `made` nor among the `headers` of groups."""
    texts = {f"{result.texts.stem}.h": result.texts.header for result in made}
    texts |= {header.path.name: header.content.decode() for header in headers}
    umbrellas = []
    for api in options.apis:
        described = []
        for stem in stems:
            path = args.output / f"{stem}{api.suffix}.h"
            text = texts.get(f"{stem}.h") or texts.get(path.name) or path.read_text()
            described.append((path.name, text))
        path = args.output / f"{args.umbrella}{api.suffix}.h"
        umbrellas.append(files.File(path, _umbrella_text(path.name, described).encode()))
    return umbrellas


def launch_header(path: Path, *, every: bool) -> list[files.File]:
    """cugen_launch.hpp, unless it is current and not `every` file is to be made."""
    if not every and files.is_current_text(path, launch_input_hash()):
        return []
    from cugen.emit.host.launch_header import launch_header

    return [files.File(path, launch_header().encode())]


def _umbrella_text(name: str, headers: Sequence[tuple[str, str]]) -> str:
    """Text of an umbrella header. `headers`: file names with the texts of the headers, whose titles describe them."""
    from cugen.emit.environment import environment
    from cugen.emit.layout import tidy, unwrapped
    from cugen.version import __version__

    text = (
        environment()
        .get_template("umbrella.h.j2")
        .render(
            name=name,
            lines=[unwrapped(text).partition("\n")[0].removeprefix("// ") for _, text in headers],
            includes=[file for file, _ in headers],
            version=__version__,
        )
    )
    text = tidy(text)
    return files.stamped(text, hashlib.sha256(text.encode()).hexdigest())
