"""torchtitan's models of its smallest flavors, trained as it lays them out.

Its trainer wants a GPU, and its language models have an attention that CPUs have no backward of:
the steps here are the trainer's without what asks for one, with torch's attention.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from tests.python.programs.outcome import Results
from tests.python.programs.world import tokens, train

__all__ = ["LENGTH", "Built", "built", "trained"]

LENGTH = 16


@dataclass(frozen=True)
class Built:
    """A model that is laid out over the ranks, with parameters that a seed has made.

    Attributes:
        module: In training mode.
        dims: torchtitan's `ParallelDims`.
        vocabulary: How many tokens there are.
    """

    module: Any
    dims: Any
    vocabulary: int


def built(
    model: str, flavor: str, backend: str, layers: int | None = None, **degrees: int
) -> Built:
    """A model of torchtitan's on CPU.

    Args:
        model: torchtitan's name for it.
        flavor: Of its sizes.
        backend: Its `spmd_backend`.
        layers: So many of its first ones; None for all.
        degrees: Of the kinds of parallelism, as its configuration names them.
    """
    from torchtitan.tools import utils

    # Its modules take "cuda" where it finds no accelerator, once they are imported.
    utils.device_type = "cpu"
    from torchtitan.config import (
        CompileConfig,
        DebugConfig,
        ParallelismConfig,
        TrainingConfig,
    )
    from torchtitan.distributed import ParallelDims
    from torchtitan.distributed import utils as dist_utils
    from torchtitan.models.common import ScaledDotProductAttention

    parallelism = ParallelismConfig(spmd_backend=backend, **degrees)
    training = TrainingConfig(seq_len=LENGTH, mixed_precision_param="float32")
    dims = ParallelDims.from_config(parallelism, dist.get_world_size())
    dims.build_mesh()
    dist_utils.set_spmd_backend(backend)

    spec = importlib.import_module(f"torchtitan.models.{model}").model_registry(flavor)
    spec.model.layers = spec.model.layers[:layers]
    for layer in spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    spec.model.update_from_config(
        config=SimpleNamespace(training=training, parallelism=parallelism, debug=DebugConfig())
    )
    with torch.device("meta"):
        module: Any = spec.model.build()
    module = spec.parallelize_fn(
        module,
        parallel_dims=dims,
        training=training,
        parallelism=parallelism,
        compile_config=CompileConfig(),
        ac_config=None,
        dump_folder="",
    )
    for each in module.modules():
        if isinstance(each, FSDPModule):
            each.set_force_sum_reduction_for_comms(True)  # gloo has no scaled sum
    module.to_empty(device="cpu")
    torch.manual_seed(0)
    with torch.no_grad():
        module.init_weights(buffer_device=None)
    return Built(module.train(), dims, spec.model.vocab_size)


def trained(model: str, flavor: str, backend: str, **degrees: int) -> Results:
    """Steps of AdamW on tokens that differ between the ranks of the batch.

    Args:
        model: As for `built`.
        flavor: As for `built`.
        backend: "partial_dtensor" or "full_dtensor".
        degrees: As for `built`.
    """
    made = built(model, flavor, backend, **degrees)
    from torchtitan.components.loss import cross_entropy_loss
    from torchtitan.distributed import full_dtensor

    batch = made.dims.get_mesh("batch")

    def loss(step: int) -> torch.Tensor:
        seed = step * batch.size() + batch.get_local_rank()
        ids = tokens(made.vocabulary, 2, LENGTH + 1, seed=seed)
        inputs, labels = ids[:, :-1], ids[:, 1:]
        more: dict[str, torch.Tensor] = {}
        if backend == "full_dtensor":
            inputs, labels, more = full_dtensor.parallelize_inputs(made.dims, inputs, labels, more)
        summed: torch.Tensor = cross_entropy_loss(made.module(inputs, **more), labels)
        return summed / labels.numel()

    return train(made.module, torch.optim.AdamW(made.module.parameters(), lr=1e-3), loss)
