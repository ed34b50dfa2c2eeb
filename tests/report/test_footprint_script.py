"""The script of a page finds the elements that a block accesses, as a walk over its threads does."""

from __future__ import annotations

import json
import random

import pytest
import sympy

from cugen.report.script_data import data

# Guards, vectors, loops from tile to tile, windows, several planes, one dimension, columns first, choices by case.
FILES = (
    "gemm_f32.yaml",
    "matmul_tiled.yaml",
    "matmul_naive.yaml",
    "transpose_padded.yaml",
    "blur_shared.yaml",
    "saxpy.yaml",
    "softmax.yaml",
    "conv_channels_last.yaml",
    "matmul_column_major.yaml",
    "heat3d.yaml",
)
EXPRESSION = """(c) => {
  const block = script.of(c.access, c.block, c.uniform, null);
  return { ...block, picture: script.picture(block, [], "label"), overview: script.overview(block, "label") };
}"""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("file", FILES)
def test_the_elements_of_a_block_are_those_of_a_walk(file, gallery_pages, in_node, sites_of, accessed):
    random_ = random.Random(file)
    cases, expected = [], []
    for page in gallery_pages(file):
        content = json.loads(json.dumps(data(page)))
        for launch in page.launches:
            all_sites = {site.access.serial: site for site in sites_of(page, launch)}
            for entry in launch.entries:
                access = content["accesses"][str(entry.number)].get("map")
                if access is None or access["matrix"] is None:
                    continue
                uniform = {v["name"]: random_.randint(v["low"], v["high"]) for v in access["variables"]}
                passing = [v["name"] for v in access["variables"] if v["kind"] == "block" or v["walks"]]
                cases.append({"access": access, "block": launch.planned.block, "uniform": uniform})
                site = all_sites[entry.report.access.serial]
                known = {sympy.Symbol(name, integer=True): uniform[name] for name in passing}
                known |= {c.symbol: 0 for c in site.counters if str(c.symbol) not in uniform}  # they change nothing
                elements, threads = accessed(site, launch.planned.block, known)
                expected.append((entry, {tuple(map(int, e)) for e in elements}, set(map(int, threads))))
    assert cases
    for (entry, elements, threads), block in zip(expected, in_node("footprint.js", EXPRESSION, cases), strict=True):
        assert block["elements"] == len(elements), entry.report.text
        plane, row, column = block["plane"], block["row"], block["column"]
        shown = {
            (0 if row is None else element[row], element[column])
            for element in elements
            if all(element[d] == plane[d] for d in range(len(element)) if d not in (row, column))
        }
        active = [cell for cell in block["cells"] if cell["active"]]
        assert {(cell["r"], cell["c"]) for cell in active} == shown, entry.report.text
        assert {cell["thread"] for cell in active} <= threads
        for cell in block["cells"]:
            is_inside = 0 <= cell["c"] < block["shape"][column] and (
                row is None or 0 <= cell["r"] < block["shape"][row]
            )
            assert cell["active"] == is_inside or block["shape"][2:]
        assert block["picture"].startswith("<svg") or not block["cells"]
        assert block["overview"].startswith("<svg") == bool(row is not None and active)
