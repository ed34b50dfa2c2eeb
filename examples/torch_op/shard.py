"""A batch whose rows are shared by all GPUs: one operator, called on each of them from a thread of its own.

python shard.py
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import cugen

rms_norm = cugen.torch_op(cugen.load(Path(__file__).parent / "norm.yaml"))


def sharded(x: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The norm of the rows of `x`, a part of them on the device of each copy of the weight, where the results stay."""

    def work(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(rows.to(weight.device), weight)

    parts = x.tensor_split(len(weights))
    with ThreadPoolExecutor(len(weights)) as pool:
        return list(pool.map(work, parts, weights))


def main() -> None:
    devices = [torch.device("cuda", number) for number in range(torch.cuda.device_count())] or [torch.device("cpu")]
    x, weight = torch.randn(1000, 512), torch.rand(512)
    parts = sharded(x, [weight.to(device) for device in devices])

    expected = weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(torch.cat([part.cpu() for part in parts]), expected)
    print(f"{len(x)} rows on {', '.join(map(str, devices))} agree with PyTorch")


if __name__ == "__main__":
    main()
