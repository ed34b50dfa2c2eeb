"""Write NAME.yaml: a commented spec without a schedule, or with --from a copy of an example. Its first line names the
schema with which editors complete and check it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from cugen.cli.failures import DONE, files_of_the_user, wrong_call
from cugen.cli.text.terminal import show
from cugen.emit.resources import SCHEMA, data_folder
from cugen.spec.nearest import nearest
from cugen.spec.parse.names import kernel_name_problem

_KERNEL_LINE = re.compile(r"^kernel:[ \t]*([A-Za-z_]\w*)", re.MULTILINE)
_DOC_LINE = re.compile(r"^doc:[ \t]*['\"]?(.*?)['\"]?$", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="kernel name; the file is NAME.yaml in the current folder"
    )
    parser.add_argument("--from", metavar="EXAMPLE", dest="example", help="copy a spec of the gallery")
    parser.add_argument("--list", action="store_true", help="describe the specs of the gallery, and write nothing")


def execute(args: argparse.Namespace) -> int:
    if args.list:
        _list()
        return DONE
    if args.name is None:
        raise wrong_call("no name is given", "write `cugen new NAME`; `cugen new --list` describes the examples")
    if problem := kernel_name_problem(args.name):
        stem = args.name.removesuffix(".yaml")
        if stem != args.name and kernel_name_problem(stem) is None:
            raise wrong_call(f"`{args.name}` is the name of a file, not of a kernel", f"write `cugen new {stem}`")
        raise wrong_call(f"invalid kernel name `{args.name}`: {problem[0]}", problem[1])
    text = _starter(args.name) if args.example is None else _example(args.example, args.name)
    path = Path(f"{args.name}.yaml")
    with files_of_the_user():
        try:
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text.replace("SCHEMA", SCHEMA.as_uri(), 1))
        except FileExistsError:
            raise wrong_call(f"{path} already exists", "choose another name, or remove it first") from None
    if not args.quiet:
        show(f"wrote {path}; try `cugen run {path}`")
    return DONE


def _examples() -> dict[str, Path]:
    return {path.stem: path for path in sorted(data_folder("specs").glob("*.yaml"))}


def _list() -> None:
    """Prints the name of each example with what its first kernel computes."""
    examples = _examples()
    width = max(map(len, examples), default=0)
    for name, path in examples.items():
        doc = _DOC_LINE.search(path.read_text(encoding="utf-8"))
        show(f"{name:<{width}}  {doc[1] if doc else ''}".rstrip())


def _starter(name: str) -> str:
    return Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8").replace("NAME", name)


def _example(example: str, name: str) -> str:
    """Text of an example under the new name; each of several kernels keeps its name as a suffix."""
    examples = _examples()
    stem = example.removesuffix(".yaml")
    if stem not in examples:
        guess = nearest(stem, examples)
        raise wrong_call(
            f"unknown example `{example}`",
            (f"did you mean `{guess}`? " if guess else "") + f"the examples: {', '.join(examples) or 'none'}",
        )
    text = "# yaml-language-server: $schema=SCHEMA\n" + examples[stem].read_text(encoding="utf-8")
    several = len(_KERNEL_LINE.findall(text)) > 1
    return _KERNEL_LINE.sub(lambda line: f"kernel: {name}_{line[1]}" if several else f"kernel: {name}", text)
