"""Times operators whose addresses, ranges or conditions depend on data: gathers, sparse rows, segments, sums by key.

    python -m benchmarks.operators.data_dependent docs/results/data_dependent_h200.json [--seconds 95] [--resume]

The specs are the documents of `data_dependent.yaml`. Their inputs are random: ends of ranges ascend, keys are about
those that they are compared with. Peers are a copy of the same bytes, and PyTorch's functions where it has some; sums
by key of PyTorch add in any order, and have a sum more at each end for the keys outside.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing.case_list import main
from benchmarks.timing.cases import Case

_BUDGET_US = 6e3  # microseconds
_F = "torch.nn.functional"
PEERS = {
    "embedding_bag": f'{_F}.embedding_bag(t, table, mode="sum")',
    "embedding_bag_mean_bf16": f'{_F}.embedding_bag(t, table, mode="mean")',
    "graph_mean": 'x + torch.einsum("nd,ndf->nf", w, x[near])',
    "sparse_convolution": "x[neighbour].reshape(x.shape[0], -1) @ w.reshape(-1, w.shape[2])",
    "edge_layer": "torch.cat([x[s], x[t]], 1) @ torch.cat([w, v], 1).T",
    "masked_rows": (
        "torch.softmax(torch.where(torch.arange(s.shape[2], device=s.device) < length[:, None, None],"
        " s.float(), -torch.inf), 2).nan_to_num().to(s.dtype)"
    ),
    "kmeans_update": "torch.zeros(258, x.shape[1], device=x.device).index_add_(0, key + 1, x)[1:257]",
    "embedding_gradient": ("torch.zeros(32002, g.shape[1], device=g.device).index_add_(0, id + 1, g.float())[1:32001]"),
    "chosen_rows": "w[t.clamp(0, w.shape[0] - 1)] * ((t >= 0) & (t < w.shape[0]))[:, None]",
    "totals_256": "torch.zeros(258, device=v.device).index_add_(0, k + 1, v)[1:257]",
    "totals_10000": "torch.zeros(10009, device=v.device).index_add_(0, k + 1, v)[1:10008]",
}


def cases() -> Iterator[Case]:
    for text in Path(__file__).with_suffix(".yaml").read_text().split("---\n"):
        (name,) = re.findall(r"^kernel: (\w+)$", text, re.MULTILINE)
        yield Case(name, "data-dependent", text, against=("torch",), peer=PEERS.get(name, ""))


if __name__ == "__main__":
    sys.exit(main(__doc__, list(cases()), budget_us=_BUDGET_US))
