"""Programs of other people's libraries, each run by torch alone and with shardprop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.python.programs.outcome import Results

from . import (
    huggingface,
    lightning_strategy,
    torch_checkpoint,
    torchao_optimizers,
    torchtitan_models,
)

__all__ = ["CASES", "Case"]

HF = huggingface.trained


@dataclass(frozen=True)
class Case:
    """A program of a library.

    Attributes:
        library: What has to be installed, as it is imported; of torch itself nothing more.
        program: Runs on all ranks.
        ranks: How many these are.
    """

    library: str
    program: Callable[[], Results]
    ranks: int = 4


def _transformers(name: str, ranks: int = 4, **sizes: int) -> Case:
    attention = "eager" if name == "GPT-OSS" else "sdpa"  # which has no other
    return Case("transformers", partial(HF, name, attention=attention, **sizes), ranks)


def _torchtitan(model: str, flavor: str, backend: str, **degrees: int) -> Case:
    degrees |= {"tensor_parallel_degree": 2, "data_parallel_shard_degree": 2}
    return Case("torchtitan", partial(torchtitan_models.trained, model, flavor, backend, **degrees))


CASES = {
    **{f"{name}, TP": _transformers(name, 2, tp_size=2) for name in huggingface.MODELS},
    "Llama, TP x FSDP2": _transformers("Llama", tp_size=2, fsdp_size=2),
    "Qwen 3 MoE, TP x FSDP2": _transformers("Qwen 3 MoE", tp_size=2, fsdp_size=2),
    "Qwen 3 MoE, EP x FSDP2 x TP": _transformers("Qwen 3 MoE", tp_size=2, fsdp_size=2, ep_size=4),
    "Llama 3, TP x FSDP2": _torchtitan("llama3", "debugmodel", "partial_dtensor"),
    "Llama 3, TP x FSDP2, all DTensor": _torchtitan("llama3", "debugmodel", "full_dtensor"),
    "DeepSeek V3, TP x FSDP2": _torchtitan("deepseek_v3", "debugmodel", "partial_dtensor"),
    "Qwen 3 MoE, EP x TP x FSDP2": _torchtitan(
        "qwen3", "debugmodel_moe", "partial_dtensor", expert_parallel_degree=2
    ),
    "Qwen 3 MoE, EP x TP x FSDP2, all DTensor": _torchtitan(
        "qwen3", "debugmodel_moe", "full_dtensor", expert_parallel_degree=2
    ),
    "ModelParallelStrategy, DP x TP": Case("lightning", lightning_strategy.trained),
    "AdamW8bit, FSDP2": Case("torchao", partial(torchao_optimizers.trained, "AdamW8bit")),
    "AdamWFp8, FSDP2": Case("torchao", partial(torchao_optimizers.trained, "AdamWFp8")),
    "torch.distributed.checkpoint, TP x FSDP2": Case("torch", torch_checkpoint.saved_and_loaded),
}
