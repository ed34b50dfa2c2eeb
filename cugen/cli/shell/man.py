"""Manual pages: one of all commands, and one for each."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from cugen.cli.main import COMMANDS, STATUSES, TITLE, add_arguments, command_module, top_parser
from cugen.version import __version__


def man_pages() -> dict[str, str]:
    """The pages by file name, such as `cugen-run.1`."""
    pages = {"cugen.1": "\n".join(_overview()) + "\n"}
    for name in COMMANDS:
        pages[f"cugen-{name}.1"] = "\n".join(_page(name)) + "\n"
    return pages


def _overview() -> Iterator[str]:
    yield from _head("cugen", TITLE)
    yield from (".SH SYNOPSIS", r".B cugen", r"\fICOMMAND\fR \fI...\fR", ".SH COMMANDS")
    for name, what in COMMANDS.items():
        yield from (".TP", rf"\fBcugen\-{name}\fR(1)", _text(what))
    yield from _options(top_parser())
    yield ".SH EXIT STATUS"
    for line in STATUSES.splitlines()[1:]:
        status, _, meaning = line.strip().partition("  ")
        yield from (".TP", rf"\fB{status}\fR", _text(meaning))


def _page(name: str) -> Iterator[str]:
    command = command_module(name)
    parser = argparse.ArgumentParser(f"cugen {name}", allow_abbrev=False)
    add_arguments(command, parser)
    yield from _head(f"cugen-{name}", COMMANDS[name])
    yield from (".SH SYNOPSIS", rf".B cugen {name}")
    usage = " ".join(parser.format_usage().split()).removeprefix(f"usage: cugen {name} ")
    yield from (_text(usage), ".SH DESCRIPTION")
    yield _text(" ".join((command.__doc__ or "").split()))
    yield from _options(parser)
    if parser.epilog:
        yield from (".SH NOTES", _text(parser.epilog))
    yield from (".SH SEE ALSO", r"\fBcugen\fR(1)")


def _head(name: str, what: str) -> Iterator[str]:
    yield rf'.TH {_text(name.upper())} 1 "" "cugen {__version__}" "User Commands"'
    yield from (".SH NAME", rf"{_text(name)} \- {_text(what)}")


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The arguments of a parser by group, each with its help."""
    formatter = argparse.HelpFormatter(parser.prog)
    for group in parser._action_groups:
        if group._group_actions:
            yield f".SH {(group.title or '').upper()}"
        for action in group._group_actions:
            yield from (".TP", rf"\fB{_text(formatter._format_action_invocation(action))}\fR")
            yield _text((action.help or "") % {"prog": parser.prog})


def _text(text: str) -> str:
    """Text in which nothing is markup of roff."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
