"""A layer of PyTorch whose forward pass is a kernel from norm.yaml: compiled, differentiated and compared."""

from pathlib import Path

import torch

import cugen

rms_norm = cugen.torch_op(cugen.load(Path(__file__).parent / "norm.yaml"))


def reference(x, w):
    return w * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def gradient(ctx, slope):
    """PyTorch's own operators; a second kernel would do as well."""
    x, w = ctx.saved_tensors
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    inward = slope * w
    along = (inward * x).mean(-1, keepdim=True) * scale**2
    return scale * (inward - x * along), (slope * x * scale).sum(0)


rms_norm.register_autograd(gradient, setup_context=keep)


class RMSNorm(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(features))

    def forward(self, x):
        return rms_norm(x, self.weight)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    norm = RMSNorm(512).to(device)
    x = torch.randn(300, 512, device=device, requires_grad=True)

    y = norm(x)
    torch.testing.assert_close(y, reference(x, norm.weight))

    slope = torch.randn_like(y)
    ours = torch.autograd.grad(y, (x, norm.weight), slope)
    theirs = torch.autograd.grad(reference(x, norm.weight), (x, norm.weight), slope)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)

    # The operator is one node of the graph, and its number of rows may change without another compilation.
    block = torch.compile(torch.nn.Sequential(norm, torch.nn.Linear(512, 64, device=device)), backend="aot_eager")
    for rows in (300, 17):
        assert block(torch.randn(rows, 512, device=device)).shape == (rows, 64)

    if device == "cuda":
        graph = torch.cuda.CUDAGraph()
        still = torch.randn(300, 512, device=device)
        with torch.no_grad(), torch.cuda.graph(graph):
            captured = norm(still)
        still.normal_()
        graph.replay()
        torch.testing.assert_close(captured, reference(still, norm.weight))

    print(f"rms_norm on {device}: forward, backward and compiled agree with PyTorch")


if __name__ == "__main__":
    main()
