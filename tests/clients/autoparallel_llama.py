"""AutoParallel's LLaMA3 problem on 8 x 8 ranks, solved by its own optimizer or through the bridge.

    git clone https://github.com/meta-pytorch/autoparallel && git -C autoparallel checkout a54c252
    pip install 'pulp<3' filecheck
    PYTHONPATH=autoparallel python -m tests.clients.autoparallel_llama 1 --bridged

The model is the one of its example (LLaMA3-8B with fewer layers), in mixed precision, parameters
sharded over all ranks. Of a GPU it asks the name alone: it is told an H100's, and attention is the
kernel of that. Prints objective and processor seconds as JSON.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import Replicate, Shard

RANKS, VOCABULARY, LENGTH = 64, 128256, 8192
H100: dict[str, Any] = {
    "device_count": lambda: 8,
    "get_device_name": lambda *_: "H100",
    "get_device_capability": lambda *_: (9, 0),
    "get_device_properties": lambda *_: SimpleNamespace(
        major=9, minor=0, name="H100", total_memory=80 * 1024**3, multi_processor_count=132
    ),
}


def main() -> None:
    """Poses and solves the problem."""
    layers, bridged = int(sys.argv[1]), "--bridged" in sys.argv
    if bridged:
        sys.path.append(str(Path(__file__).parents[2] / "examples"))
    dist.init_process_group("fake", rank=0, world_size=RANKS)
    with patch.multiple("torch.cuda", **H100):
        print(json.dumps(solved(layers, bridged)))
    dist.destroy_process_group()


def solved(layers: int, bridged: bool) -> dict[str, Any]:
    """The optimum, whether it is proved, and processor seconds, of CBC in a process of its own."""
    import pulp
    from autoparallel import api
    from autoparallel._testing.models.llama3 import Transformer, TransformerModelArgs
    from autoparallel.cost_models import compute_estimation

    compute_estimation._get_device_limit = lambda: compute_estimation.DEVICE_LIMITS[0]
    torch.nn.functional.scaled_dot_product_attention = flash_attention  # type: ignore[assignment]
    if bridged:
        importlib.import_module("autoparallel_bridge")
    mesh = init_device_mesh("cpu", (8, 8), mesh_dim_names=("dp", "tp"))
    arguments = TransformerModelArgs(
        dim=4096,
        n_layers=layers,
        n_heads=32,
        n_kv_heads=8,
        ffn_dim_multiplier=1.3,
        multiple_of=1024,
        rope_theta=500000,
        vocab_size=VOCABULARY,
        max_seq_len=LENGTH,
    )
    with torch.device("meta"):
        model = Transformer(arguments)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    started = time.process_time()
    with api.AutoParallel(model, tokens, mesh, precision, repeated_subgraphs=True) as parallel:
        parallel.add_parameter_memory_constraint(low=None, high=None)
        parallel.add_input_constraints([(Shard(0), Replicate())])
        parallel.add_output_constraints([(Shard(0), Shard(2))])
        optimizer = parallel.sharding_optimizer
        optimizer.get_solution()
        seconds = time.process_time() - started
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = getattr(optimizer, "solution", None)
    return {
        "objective": found.objective if found else pulp.value(optimizer.prob.objective),
        "proved": found.proved if found else optimizer.prob.status == pulp.LpStatusOptimal,
        "seconds": seconds,
        "child": children.ru_utime + children.ru_stime,
    }


def tokens() -> torch.Tensor:
    """A batch, two sequences for each rank of the first mesh dim."""
    return torch.randint(0, VOCABULARY, (16, LENGTH))


def flash_attention(q: Any, k: Any, v: Any, is_causal: bool = False, **_: Any) -> Any:
    """The kernel of GPUs, which CPUs would not take."""
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal)[0]


if __name__ == "__main__":
    main()
