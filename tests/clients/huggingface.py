"""Models of Hugging Face's transformers, small, trained as their own plans lay them out."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist

from tests.python.programs.outcome import Results
from tests.python.programs.world import tokens, train

from .folders import shared_folder

VOCABULARY, HIDDEN, LAYERS = 64, 32, 2

_SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2}
_LOCAL_EXPERTS: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 2}

# By name of the model: the stem of its classes, and what its configuration has beside the above.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", {}),
    "Gemma": ("Gemma", {}),
    "Gemma 3": ("Gemma3Text", {"sliding_window": 8}),
    "Qwen 3": ("Qwen3", {}),
    "Qwen 3 MoE": ("Qwen3Moe", {**_EXPERTS, "moe_intermediate_size": 32, "decoder_sparse_step": 1}),
    "Mixtral": ("Mixtral", _LOCAL_EXPERTS),
    "GPT-OSS": ("GptOss", {**_LOCAL_EXPERTS, "sliding_window": 8}),
    "DeepSeek V3": (
        "DeepseekV3",
        {
            "head_dim": 4,
            "n_routed_experts": 4,
            "n_group": 2,
            "topk_group": 1,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4,
            "v_head_dim": 8,
        },
    ),
}


def model_of(name: str, attention: str, **sizes: int) -> torch.nn.Module:
    """A model, distributed over so many ranks (``tp_size``, ``fsdp_size``, ``ep_size``)."""
    import transformers
    from transformers.distributed.configuration_utils import DistributedConfig

    stem, more = MODELS[name]
    config = getattr(transformers, f"{stem}Config")(**_SMALL | more)
    kind = getattr(transformers, f"{stem.removesuffix('Text')}ForCausalLM")
    os.environ.update(
        RANK=str(dist.get_rank()),
        LOCAL_RANK=str(dist.get_rank()),
        WORLD_SIZE=str(dist.get_world_size()),
    )
    with shared_folder() as folder:
        torch.manual_seed(0)
        kind(config).save_pretrained(folder)  # the first rank does
        dist.barrier()
        model: torch.nn.Module = kind.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation=attention,
            distributed_config=DistributedConfig(**sizes),
        )
    return model.train()


def trained(name: str, *, attention: str = "sdpa", length: int = 16, **sizes: int) -> Results:
    """Steps of AdamW on tokens that are the same on every rank."""
    model: Any = model_of(name, attention, **sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)

    def loss(step: int) -> torch.Tensor:
        ids = tokens(VOCABULARY, 2, length, seed=step)
        made: torch.Tensor = model(input_ids=ids, labels=ids, use_cache=False).loss
        return made

    return train(model, optimizer, loss)
