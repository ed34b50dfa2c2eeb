"""The pages of the project, and their blocks of code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "docs/course", "docs/results", "specs", "examples", "examples/*")
PAGES = (*sorted(ROOT.glob("*.md")), *(page for folder in FOLDERS for page in sorted(ROOT.glob(f"{folder}/*.md"))))
_BLOCK = re.compile(r"^( *)```(\S*)(?: (\S[^\n]*))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"\bCG\d{4}\b")


@dataclass(frozen=True)
class Block:
    """A block of code: ```` ```language info ````."""

    language: str
    info: str
    text: str

    @property
    def is_spec(self) -> bool:
        return self.language == "yaml" and self.text.startswith("cugen:")

    @property
    def codes(self) -> list[str]:
        """The diagnostics that a spec is refused with, such as of `yaml bad CG1201` or `yaml large.yaml CG3102`."""
        return _CODE.findall(self.info)

    @property
    def file(self) -> str:
        """The path that the info has, if it has one."""
        first = self.info.partition(" ")[0]
        return first if "." in first else ""

    @property
    def status(self) -> int:
        """The exit status of a console's commands: that of ```` ```console exit 1 ````, else 0."""
        return int(self.info.removeprefix("exit ")) if self.info.startswith("exit ") else 0

    @property
    def commands(self) -> list[str]:
        """The commands of a console, one a line."""
        if self.language not in ("console", "sh"):
            return []
        return self.text.replace("\\\n", " ").splitlines()


def name_of(page: Path) -> str:
    """The page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, those inside lists too."""
    return blocks_of(page.read_text())


def blocks_of(text: str) -> list[Block]:
    """The blocks of a part of a page."""
    return [
        Block(language, info, re.sub(f"^{indentation}", "", text, flags=re.MULTILINE))
        for indentation, language, info, text in _BLOCK.findall(text)
    ]


def without_blocks(text: str) -> str:
    """The prose of a page."""
    return _BLOCK.sub("", text)
