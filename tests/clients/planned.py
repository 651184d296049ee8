"""Models of Hugging Face's transformers as they come, planned and run, beside one device."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils._python_dispatch import TorchDispatchMode

from shardprop import graph
from tests.python.erasure.allocated import allocated
from tests.python.programs.world import mesh_of

VOCABULARY, HIDDEN, LAYERS, BATCH, LENGTH = 128, 64, 2, 8, 16

# What a model is called with, and the model.
Made = tuple[nn.Module, dict[str, Any]]

_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 2 * HIDDEN,
}


def _language(stem: str, kind: str = "ForCausalLM", **sizes: Any) -> Made:
    import transformers

    config = getattr(transformers, f"{stem}Config")(use_cache=False, **sizes)
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    return getattr(transformers, f"{stem}{kind}")(config), {"input_ids": ids, "labels": ids}


def _bert() -> Made:
    heads: dict[str, Any] = {"num_attention_heads": 4, "max_position_embeddings": 4 * LENGTH}
    model, inputs = _language("Bert", "ForMaskedLM", **_SIZES, **heads)
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[: BATCH // 2, LENGTH // 2 :] = 0
    return model, {**inputs, "attention_mask": mask}


def _t5() -> Made:
    sizes: dict[str, Any] = {
        "d_model": HIDDEN,
        "d_kv": 16,
        "d_ff": 128,
        "num_layers": LAYERS,
        "num_heads": 4,
    }
    ends: dict[str, Any] = {"decoder_start_token_id": 0, "pad_token_id": 0}
    return _language("T5", "ForConditionalGeneration", vocab_size=VOCABULARY, **sizes, **ends)


def _gpt2() -> Made:
    sizes: dict[str, Any] = {
        "n_positions": 2 * LENGTH,
        "n_embd": HIDDEN,
        "n_layer": LAYERS,
        "n_head": 4,
    }
    ends: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2}
    return _language("GPT2", "LMHeadModel", vocab_size=VOCABULARY, **sizes, **ends)


def _vit() -> Made:
    import transformers

    sizes = {key: value for key, value in _SIZES.items() if key != "vocab_size"}
    config = transformers.ViTConfig(
        num_attention_heads=4, image_size=32, patch_size=8, num_labels=BATCH, **sizes
    )
    images = torch.randn(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    inputs = {"pixel_values": images, "labels": torch.arange(BATCH)}
    return transformers.ViTForImageClassification(config), inputs


def _images(stem: str, side: int, **sizes: Any) -> Made:
    import transformers

    config = getattr(transformers, f"{stem}Config")(
        num_channels=3, hidden_sizes=[32, 64], depths=[2, 2], num_labels=BATCH, **sizes
    )
    images = torch.randn(BATCH, 3, side, side, generator=torch.Generator().manual_seed(1))
    model = getattr(transformers, f"{stem}ForImageClassification")(config)
    return model, {"pixel_values": images, "labels": torch.arange(BATCH)}


_HEADS: dict[str, Any] = {"num_attention_heads": 8, "num_key_value_heads": 2}

# Llama and Mixtral have fewer heads of keys than there are ranks; dropout is as each model has it.
MODELS: dict[str, Callable[[], Made]] = {
    "Llama": lambda: _language("Llama", **_SIZES, **_HEADS),
    "GPT-2": _gpt2,
    "BERT": _bert,
    "T5": _t5,
    "Mixtral": lambda: _language("Mixtral", num_local_experts=4, **_SIZES, **_HEADS),
    "ViT": _vit,
    "ResNet": lambda: _images("ResNet", 64, embedding_size=16, layer_type="basic"),
    "ConvNeXt": lambda: _images("ConvNext", 32, num_stages=2, patch_size=2, drop_path_rate=0.1),
}
_CONVOLUTIONS = ("ResNet", "ConvNeXt")


@dataclass(frozen=True)
class Report:
    """What one rank saw of a step.

    Attributes:
        loss: Of the planned model.
        single: Of one device.
        gradient: How far a gradient is from that of one device, of the largest element that it has
            there (at least a thousandth of the largest of all).
        stated: Collectives of the plan.
        counted: Those that CommDebugMode counts.
        sharded: Parameters that the plan shards.
        cannot_run: Strategies that were left out since they do not run.
        held: Bytes that the plan says a step holds at once, beside what is there all the time.
        allocated: Bytes that it allocates: the least of three steps. Without what convolutions free
            before they return, which depends on the processor.
    """

    loss: float
    single: float
    gradient: float
    stated: int
    counted: int
    sharded: int
    cannot_run: int
    held: int
    allocated: int


def report_of(program: Callable[[], Report]) -> Report:
    """Its own; nothing is compared."""
    return program()


def run(
    name: str,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    share: float | None = None,
) -> Report:
    """Plan a model for half of its parameters on a rank, and take a step of it.

    Args:
        name: The model.
        shape: Of the mesh.
        dtype: Of parameters and inputs.
        share: Of what its best plan holds with AdamW that a rank may hold; None: all.
    """
    planned, inputs = _made(name, dtype)
    single, _ = _made(name, dtype)
    size = sum(each.numel() * each.itemsize for each in planned.parameters())
    captured = graph.capture(
        planned,
        (),
        mesh_of(shape, ("dp", "tp")[: len(shape)]),
        topology="h100-nvlink",
        example_kwargs=inputs,
        parameter_memory=size / 2,
    )
    assert not captured.without_rule, captured.without_rule
    plan = captured.solve()
    if share is not None:
        plan = _of_rank_0(captured, share * plan.memory(torch.optim.AdamW).peak)
    plan.compile(planned)
    with CommDebugMode() as counted:
        loss = _step(planned, inputs)
    expected = _step(single, inputs)
    assert isinstance(loss, DTensor)
    difference = _difference(planned, single)
    memory = plan.memory()
    return Report(
        loss=loss.full_tensor().item(),
        single=expected.item(),
        gradient=difference,
        stated=plan.volume.collectives,
        counted=counted.get_total_counts(),
        sharded=sum(
            any(p.is_shard() for p in placements)
            for placements in plan.placements().parameters.values()
        ),
        cannot_run=sum(captured.cannot_run.values()),
        held=max(memory.forward, memory.backward),
        allocated=min(_allocated(planned, inputs, name not in _CONVOLUTIONS) for _ in range(3)),
    )


def _of_rank_0(captured: graph.Capture, memory: float) -> graph.ModelPlan:
    """The plan that it finds in a while: another rank may find another one."""
    with tempfile.TemporaryDirectory() as folder:
        folders = [folder]
        dist.broadcast_object_list(folders)
        path = Path(folders[0]) / "plan.json"
        if dist.get_rank() == 0:
            found = captured.solve(memory=memory, optimizer=torch.optim.AdamW, time_limit=30)
            assert found.memory(torch.optim.AdamW).peak <= memory
            found.save(path)
        dist.barrier()
        plan = captured.load(path)
        dist.barrier()
        return plan


class _Settled(TorchDispatchMode):
    """Gives gloo's threads the time to let go of what they have sent, after each wait: they come to
    it when they have a processor."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is torch.ops._c10d_functional.wait_tensor.default:
            time.sleep(0.01)
        return made


def _allocated(model: nn.Module, inputs: dict[str, Any], inside_ops: bool) -> int:
    def step() -> None:
        with _Settled():
            _step(model, inputs)

    model.zero_grad(set_to_none=True)
    _, most = allocated(step, inside_ops=inside_ops)
    return most


def _made(name: str, dtype: torch.dtype) -> Made:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model.to(dtype).train(), {
        key: value.to(dtype) if value.is_floating_point() else value
        for key, value in inputs.items()
    }


def _step(model: nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    torch.manual_seed(3)
    outputs = model(**inputs)  # held to the end of the backward, as most programs do
    loss: torch.Tensor = outputs.loss
    loss.backward()
    return loss.detach()


def _difference(planned: nn.Module, single: nn.Module) -> float:
    right = [each.grad for each in single.parameters()]
    least = 1e-3 * max(each.abs().max().item() for each in right if each is not None)
    worst = 0.0
    for parameter, gradient in zip(planned.parameters(), right, strict=True):
        found = parameter.grad
        if gradient is None or found is None:
            assert gradient is None and found is None
            continue
        assert isinstance(found, DTensor)
        apart = (found.full_tensor() - gradient).abs().max().item()
        worst = max(worst, apart / max(gradient.abs().max().item(), least))
    return worst
