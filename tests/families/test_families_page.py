"""The page about families lists the registry."""

from __future__ import annotations

from pathlib import Path

from cugen.families.registry import families

PAGE = Path(__file__).parents[2] / "docs" / "families.md"


def test_the_page_lists_every_family_with_its_tunables(golden_part):
    rows = ["| family | rank | what it takes | tunable | values | default | meaning |", "| --- " * 7 + "|"]
    for family in families():
        columns = f"| `{family.name}` | {family.rank} | {family.doc} |"
        for tunable in family.tunables:
            rows.append(f"{columns} `{tunable.name}` | {tunable.listed()} | {tunable.default} | {tunable.doc} |")
            columns = "| | | |"  # of a family's further tunables
        if not family.tunables:
            rows.append(f"{columns} | | | |")
    golden_part(PAGE, "families", "\n".join(rows) + "\n")
    missing = [family.name for family in families() if f"- **{family.name}**" not in PAGE.read_text()]
    assert not missing
