"""Closed forms of output metadata against torch's fake tensors, call by call.

Where a form answers, its answer is torch's to the last stride and container; errors of torch are
declined. What is declined costs time and nothing else, so shares of it are bounded loosely.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.testing._internal.common_methods_invocations import op_db

from shardprop.metadata.closed_forms import DECLINED, closed_form, forms

from .closed_form_samples import Sampler
from .fake_meta import fake_meta, is_same, readable
from .recorded_calls import Recorder

aten = torch.ops.aten

# What a CPU build of torch says where even fake tensors of a GPU need the GPU.
LACKS_DEVICE = (
    "not linked with support for cuda",
    "not compiled with CUDA",
    "Found no NVIDIA driver",
)
# Calls per op that have to be tried before one is answered, at most.
MOST_TRIES = 300


def _families() -> dict[str, list[Any]]:
    by_family: dict[str, list[Any]] = defaultdict(list)
    for op, form in forms().items():
        by_family[form.family].append(op)
    return by_family


FAMILIES = _families()
# The elementwise ops are too many for one test.
GROUPS = [
    *((family, FAMILIES[family]) for family in sorted(FAMILIES) if family != "pointwise"),
    *((f"pointwise{i}", FAMILIES["pointwise"][i::12]) for i in range(12)),
]


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def mesh(request: pytest.FixtureRequest, process_group: None) -> DeviceMesh:
    """A mesh of a device type; of a GPU there need be none."""
    return DeviceMesh(request.param, list(range(64)), _init_backend=False, _rank=0)


def _sample(sampler: Sampler, op: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    family = forms()[op].family
    if family == "pointwise":
        return sampler.elementwise(op)
    overload = "" if op._overloadname == "default" else f".{op._overloadname}"
    packet: str = op._schema.name.rpartition("::")[2]
    takes_overload = family in ("reduce", "reduce_pair", "scatter", "sort", "squeeze")
    return sampler.other(family, packet + overload if takes_overload else packet)


def _assert_torchs(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
    """The answer, if there is one, is torch's. Was there one? None where torch raises."""
    form = closed_form(op)
    assert form is not None
    got = form(args, kwargs)
    want = fake_meta(op, args, kwargs)
    if got is DECLINED:
        return None if isinstance(want, Exception) else False
    if any(words in str(want) for words in LACKS_DEVICE):
        return True
    call = f"{op}{readable(args)} {readable(kwargs)}"
    assert is_same(got, want), f"{call}:\n  torch {want!r}\n  here  {got!r}"
    return True


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("group", "ops"), GROUPS, ids=[name for name, _ in GROUPS])
def test_answers_are_torchs(mesh: DeviceMesh, group: str, ops: list[Any]) -> None:
    least = 16 if mesh.device_type == "cpu" else 6
    for op in ops:
        sampler = Sampler(mesh, seed=sum(map(ord, str(op))))
        answered = 0
        for tries in range(MOST_TRIES):
            if tries >= least and answered:
                break
            args, kwargs = _sample(sampler, op)
            answered += _assert_torchs(op, args, kwargs) or 0
        assert answered, f"{op} was never answered"


# --- the calls of programs -------------------------------------------------------------------

# OpInfos of torch whose programs call the ops above, forward and backward.
_NAMES = """
    _softmax_backward_data add addmm amax argmax bmm cat chunk clamp cumsum div einsum expand
    gather index_select log_softmax logsumexp masked_fill masked_select matmul max mean mul
    native_layer_norm nn.functional.cross_entropy nn.functional.dropout nn.functional.embedding
    nn.functional.gelu nn.functional.layer_norm nn.functional.linear nn.functional.mse_loss
    nn.functional.nll_loss nn.functional.rms_norm nn.functional.silu norm permute pow prod
    reshape scatter sigmoid softmax sort split squeeze stack std sub sum svd tanh topk transpose
    unbind unflatten unsqueeze var view where
"""
OP_INFOS = frozenset(_NAMES.split())


def _programs() -> Iterator[Callable[[], object]]:
    for info in op_db:
        if info.name not in OP_INFOS or torch.float32 not in info.dtypes:
            continue
        samples = info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd)
        for _, sample in zip(range(6), samples, strict=False):
            call = (info.op, sample.input, sample.args, sample.kwargs)

            def program(call: tuple[Any, ...] = call) -> None:
                function, first, args, kwargs = call
                out = function(first, *args, **kwargs)
                out = out[0] if isinstance(out, (tuple, list)) else out
                if out.requires_grad:
                    out.sum().backward()

            yield program


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_answers_to_torchs_own_samples_are_torchs(mesh_of: Any) -> None:
    recorder = Recorder(mesh_of(64), forms())
    for program in _programs():
        with recorder:
            program()
    outcomes = [_assert_torchs(*call) for call in recorder.calls]
    assert outcomes.count(True) > 1000
    assert outcomes.count(False) < 0.12 * len(outcomes)


class _Block(torch.nn.Module):
    """A transformer's block, with its attention written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.LayerNorm(width),
            torch.nn.Linear(width, 4 * width),
            torch.nn.GELU(),
            torch.nn.Linear(4 * width, width),
            torch.nn.Dropout(0.1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(length, length, dtype=torch.bool)
        scores = (q @ k.transpose(-2, -1)) * 0.5
        weights = scores.masked_fill(mask, -1e9).softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.mlp(x)


def test_nearly_all_of_a_training_step_is_answered(mesh_of: Any) -> None:
    embed, block = torch.nn.Embedding(11, 8), _Block(8, 2)
    head = torch.nn.Linear(8, 11)
    parameters = [*embed.parameters(), *block.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, foreach=True)
    tokens = torch.randint(11, (2, 6))
    recorder = Recorder(mesh_of(64), forms())
    with recorder:
        logits = head(block(embed(tokens)))
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    outcomes = [_assert_torchs(*call) for call in recorder.calls]
    assert len(outcomes) > 60
    declined = [str(c[0]) for c, o in zip(recorder.calls, outcomes, strict=True) if not o]
    assert declined == []


# --- what is declined ------------------------------------------------------------------------


def _spec(mesh: DeviceMesh, *shape: int, dtype: torch.dtype = torch.float32) -> DTensorSpec:
    like = torch.empty(shape, dtype=dtype, device="meta")
    meta = TensorMeta(like.shape, like.stride(), dtype)
    return DTensorSpec(mesh, (Replicate(),), tensor_meta=meta)


def _answer(op: Any, *args: Any, **kwargs: Any) -> Any:
    form = closed_form(op)
    assert form is not None
    return form(args, kwargs)


def test_an_op_of_no_family_has_no_form() -> None:
    assert closed_form(aten.convolution.default) is None


def test_an_operand_without_metadata_is_declined(mesh_of: Any) -> None:
    bare = DTensorSpec(mesh_of(64), (Replicate(),))
    assert _answer(aten.relu.default, bare) is DECLINED


def test_a_plain_tensor_is_declined(mesh_of: Any) -> None:
    assert _answer(aten.mm.default, _spec(mesh_of(64), 2, 2), torch.ones(2, 2)) is DECLINED


def test_symbolic_sizes_are_declined(mesh_of: Any) -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    size = ShapeEnv().create_unbacked_symint()
    meta = TensorMeta(torch.Size([4]), (1,), torch.float32)
    symbolic = meta._replace(shape=(size,))  # type: ignore[arg-type]
    spec = DTensorSpec(mesh_of(64), (Replicate(),), tensor_meta=symbolic)
    assert _answer(aten.relu.default, spec) is DECLINED
    assert _answer(aten.view.default, _spec(mesh_of(64), 4), [size]) is DECLINED


def test_operands_on_several_meshes_are_declined(mesh_of: Any) -> None:
    one, other = _spec(mesh_of(64), 2, 2), _spec(mesh_of(8, 8), 2, 2)
    assert _answer(aten.add.Tensor, one, other) is DECLINED


def test_dtypes_beyond_the_common_ones_are_declined(mesh_of: Any) -> None:
    spec = _spec(mesh_of(64), 4, dtype=torch.float8_e4m3fn)
    assert _answer(aten.clone.default, spec) is DECLINED


def test_wrong_arguments_are_declined(mesh_of: Any) -> None:
    x = _spec(mesh_of(64), 2, 2)
    assert _answer(aten.mm.default) is DECLINED
    assert _answer(aten.mm.default, x, x, x) is DECLINED
    assert _answer(aten.mm.default, x, x, other=x) is DECLINED
    assert _answer(aten.mm.default, x, self=x) is DECLINED
    assert _answer(aten.transpose.int, x, 0, 1.0) is DECLINED
    assert _answer(aten.transpose.int, x, 0, True) is DECLINED
    assert _answer(aten.transpose.int, x, 0, 2**70) is DECLINED
    assert _answer(aten.view.default, x, [2**40, 2**40]) is DECLINED
    assert _answer(aten.new_empty.default, x, [2**40, 2**40]) is DECLINED
    assert _answer(aten.cat.default, []) is DECLINED
    assert _answer(aten.add.Tensor, x, 1j) is DECLINED
    assert _answer(aten.zeros_like.default, x, pin_memory=True) is DECLINED


def test_shapes_that_do_not_fit_are_declined(mesh_of: Any) -> None:
    mesh = mesh_of(64)
    assert _answer(aten.add.Tensor, _spec(mesh, 2, 3), _spec(mesh, 2, 4)) is DECLINED
    assert _answer(aten.mm.default, _spec(mesh, 2, 3), _spec(mesh, 2, 3)) is DECLINED
    assert _answer(aten.add_.Tensor, _spec(mesh, 3), _spec(mesh, 2, 3)) is DECLINED


def test_an_answer_names_its_types(mesh_of: Any) -> None:
    x = _spec(mesh_of(64), 2, 3)
    meta = _answer(aten.relu.default, x)
    assert type(meta) is TensorMeta
    assert type(meta.shape) is torch.Size
    assert type(meta.stride) is tuple
    assert meta == x.tensor_meta


def test_list_ops_that_write_return_nothing(mesh_of: Any) -> None:
    x = _spec(mesh_of(64), 2, 3)
    assert _answer(aten._foreach_add_.List, [x, x], [x, x]) is None
    assert _answer(aten._foreach_add.List, [x, x], [x, x]) == [x.tensor_meta] * 2
    assert _answer(aten._foreach_add.List, [x, x], [x]) is DECLINED


def test_the_default_dtype_is_asked_for_each_time(mesh_of: Any) -> None:
    whole = _spec(mesh_of(64), 2, dtype=torch.int64)
    before = torch.get_default_dtype()
    assert _answer(aten.div.Tensor, whole, whole).dtype is before
    try:
        torch.set_default_dtype(torch.float64)
        assert _answer(aten.div.Tensor, whole, whole).dtype is torch.float64
        assert _answer(aten.mul.Tensor, whole, 2.5).dtype is torch.float64
    finally:
        torch.set_default_dtype(before)


def test_warnings_are_not_given(mesh_of: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _answer(aten.div.Tensor, _spec(mesh_of(64), 2), 0)
