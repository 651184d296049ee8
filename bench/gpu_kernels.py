"""What local kernels take on a GPU: behind `kernel_us`, memory bandwidth and efficiency.

Local copies that come with collectives, casts, sums and matrix products, each in a CUDA graph of
calls one after the other, so that what is timed is the device and not Python. Needs torch and a GPU
alone, not shardprop, so that it runs on whatever machine is lent:

    python bench/gpu_kernels.py > kernels.json
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
from collections.abc import Callable, Iterator

import torch

KIB, MIB = 2**10, 2**20
SIZES = [4 * KIB, 64 * KIB, 512 * KIB, 2 * MIB, 8 * MIB, 32 * MIB, 128 * MIB, 512 * MIB, 1024 * MIB]
PRODUCTS = [256, 512, 1024, 2048, 4096, 8192]
RANKS = 8
# Calls of one graph: as many as take about this long, within bounds.
GRAPH_US, MOST_CALLS, REPLAYS = 4000.0, 400, 15

Call = Callable[[], object]


def microseconds(call: Call) -> tuple[float, float]:
    """Least and median time of a call, in a graph of equal calls."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    count = max(1, min(MOST_CALLS, int(GRAPH_US / max(_replayed(_captured(call, 1)), 0.5))))
    graph = _captured(call, count)
    _replayed(graph)
    times = [_replayed(graph) / count for _ in range(REPLAYS)]
    return min(times), statistics.median(times)


def _captured(call: Call, count: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph


def _replayed(graph: torch.cuda.CUDAGraph) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def moved(size: int) -> Iterator[tuple[str, int, Call]]:
    """Calls on `size` bytes, with what each reads and writes together."""
    rows = 4 * KIB if size >= MIB else 64
    floats = torch.randn(rows, size // (4 * rows), device="cuda")
    halves = torch.randn(rows, size // (2 * rows), device="cuda", dtype=torch.bfloat16)
    out, out_halves = torch.empty_like(floats), torch.empty_like(halves)
    others, other_halves = torch.randn_like(floats), torch.randn_like(halves)
    yield "copy", 2 * size, lambda: out.copy_(floats)
    yield "add", 3 * size, lambda: torch.add(floats, others, out=out)
    if floats.shape[1] % RANKS == 0:
        width = floats.shape[1] // RANKS
        column = torch.empty(rows, width, device="cuda")
        yield "chunk of dim 1", 2 * size // RANKS, lambda: column.copy_(floats[:, :width])
        pieces = list(torch.randn(size // 4, device="cuda").view(RANKS, rows, width))
        yield "cat to dim 1", 2 * size, lambda: torch.cat(pieces, 1, out=out)
        apart = torch.empty(RANKS, rows, width, device="cuda")
        by_columns = floats.view(rows, RANKS, width).transpose(0, 1)
        yield "columns to the front", 2 * size, lambda: apart.copy_(by_columns)
    yield "bfloat16 to float32", 3 * size, lambda: halves.float()
    yield "float32 to bfloat16", 3 * size // 2, lambda: floats.bfloat16()
    yield "sum of all", size, lambda: floats.sum()
    yield "sum over rows", size, lambda: floats.sum(0)
    yield "norm of all", size, lambda: torch.linalg.vector_norm(floats)
    yield "bfloat16 gelu", 2 * size, lambda: torch.nn.functional.gelu(halves)
    yield "bfloat16 softmax", 2 * size, lambda: torch.softmax(halves, -1)
    yield "bfloat16 add", 3 * size, lambda: torch.add(halves, other_halves, out=out_halves)


def products(n: int) -> Iterator[tuple[str, int, Call]]:
    """Matrix products of n by n, with their operations."""
    flops = 2 * n**3
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
        yield f"mm {str(dtype).removeprefix('torch.')}", flops, functools.partial(torch.mm, a, b)
    heads = torch.randn(3, 4, 16, n, 128, device="cuda", dtype=torch.bfloat16)
    attention = torch.nn.functional.scaled_dot_product_attention
    yield "attention bfloat16", 4 * 4 * 16 * n * n * 128, lambda: attention(*heads)
    if n % 16 == 0:
        one = torch.ones((), device="cuda")
        a8, b8 = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
        yield (
            "mm float8_e4m3fn",
            flops,
            lambda: torch._scaled_mm(a8, b8.t(), one, one, out_dtype=torch.bfloat16),
        )


def main() -> None:
    """Prints the figures as JSON, a line for each call."""
    head = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "tf32": torch.backends.cuda.matmul.allow_tf32,
    }
    print(json.dumps(head))
    with torch.no_grad():
        for kind, calls, amounts in (("bytes", moved, SIZES), ("flops", products, PRODUCTS)):
            for amount in amounts:
                for name, work, call in calls(amount):
                    try:
                        least, median = microseconds(call)
                    except RuntimeError as error:
                        print(f"{name}, {amount}: {str(error).splitlines()[0]}", file=sys.stderr)
                        continue
                    line = {"call": name, "size": amount, kind: work, "us": least, "median": median}
                    print(json.dumps(line), flush=True)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
