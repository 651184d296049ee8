"""Metadata of outputs: ours is torch's, by whatever means; and which means an op falls under."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.distributed.tensor._op_schema import OpSchema
from torch.distributed.tensor.debug import CommDebugMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.overrides import TorchFunctionMode
from torch.utils._debug_mode import DebugMode
from torch.utils._python_dispatch import TorchDispatchMode

from shardprop import _torch
from shardprop.metadata import class_of, output_meta
from shardprop.metadata.admitted import ADMITTED
from shardprop.metadata.classes import CLOSED_FORM, FAKE_TENSORS, META_TENSORS
from shardprop.metadata.left_out import LEFT_OUT

from ..parity.all_ops import find_known_op
from ..parity.opinfo_recorder import RecordedCall
from ..parity.registry import find_op
from ..parity.sketch import Sketch
from ..quiet import quiet
from .calls import schema_of, variants
from .compare import Answer, answer_of, ours, same, torchs
from .contexts import CONTEXTS, EVERYWHERE, Context
from .detours import HARMLESS, detour, runs_for_real
from .handmade import FINE, REFUSED
from .run import Report
from .samples import has_elements, read

aten = torch.ops.aten
SAMPLES = [call for call in read() if find_known_op(call.op)]
EAGER = EVERYWHERE[0]


@pytest.fixture(autouse=True)
def without_noise() -> Iterator[None]:
    with quiet():
        yield


@pytest.mark.slow
def test_torchs_samples_get_torchs_metadata_and_every_admitted_op_is_among_them() -> None:
    report = Report()
    for call in SAMPLES:
        for context in EVERYWHERE if call.op in ADMITTED else (EAGER,):
            report.compare(call, context)
    assert report.differences == []
    assert report.not_compared({op for op in ADMITTED if find_known_op(op)}) == []
    assert report.compared > 2500


@pytest.mark.slow
def test_other_layouts_dtypes_and_contexts_get_torchs_metadata() -> None:
    rng, report = random.Random(0), Report()
    varied = [call for call in SAMPLES if not runs_for_real(find_op(call.op))]
    for call in rng.sample(varied, 500):
        report.compare(rng.choice(list(variants(call))), rng.choice(CONTEXTS))
    assert report.differences == []


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.name)
def test_calls_that_no_sample_makes_get_torchs_metadata(context: Context) -> None:
    report = Report()
    for call in FINE:
        if find_known_op(call.op):
            report.compare(call, context)
    assert report.differences == []


@pytest.mark.parametrize("call", REFUSED, ids=lambda call: call.op)
def test_a_refusal_is_in_torchs_words(call: RecordedCall) -> None:
    assert torchs(call, EAGER).error is not None
    for context in EVERYWHERE[::2]:
        expected = torchs(call, context)
        if expected.error is not None:  # a tracer may go on with a size that it makes up
            assert same(ours(call, context), expected)


# Classes ------------------------------------------------------------------------------------------


def test_no_op_is_both_admitted_and_left_out() -> None:
    assert not ADMITTED & LEFT_OUT.keys()


def test_the_fake_mode_catches_no_admitted_op_with_another_result() -> None:
    ops = [op for name in sorted(ADMITTED) if (op := find_known_op(name))]
    caught = {str(op): detour(op) for op in ops}
    assert {op: by for op, by in caught.items() if by is not None and by not in HARMLESS} == {}


def test_classes_have_reasons() -> None:
    names = {
        aten.mm.default: CLOSED_FORM,
        aten.native_layer_norm.default: CLOSED_FORM,
        aten._cdist_forward.default: META_TENSORS,
        aten.empty.memory_format: FAKE_TENSORS,
        aten.matmul.default: FAKE_TENSORS,
    }
    for op, name in names.items():
        assert class_of(op).name == name
    assert class_of(aten._fft_r2c.default).reason == LEFT_OUT["aten._fft_r2c.default"]
    assert "tensors from none" in class_of(aten.empty.memory_format).reason


def test_an_op_of_the_programs_own_is_left_to_fake_tensors() -> None:
    with torch.library._scoped_library("shardprop_metadata_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: torch.cat([x, x]), "Meta")
        op = torch.ops.shardprop_metadata_test.twice.default
        assert class_of(op) == (FAKE_TENSORS, "not one of torch's own ops")
        schema = OpSchema(op, schema_of(_sum_of(T33, T33), "cpu").args_schema[:1], {})
        meta: Any = output_meta(schema)
        assert meta.shape == (6, 3)


# What is around the call --------------------------------------------------------------------------

T33 = Sketch((3, 3))


def _sum_of(*sketches: Sketch) -> RecordedCall:
    return RecordedCall("aten.mm.default", sketches, {})


class _DispatchSpy(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class _FunctionSpy(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("spy", [_DispatchSpy, _FunctionSpy])
def test_no_mode_of_the_program_sees_the_call(spy: Callable[[], Any]) -> None:
    expected = torchs(_sum_of(T33, T33), EAGER)
    with spy() as mode:
        assert same(ours(_sum_of(T33, T33), EAGER), expected)
        assert mode.seen == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "around",
    [
        CommDebugMode,
        DebugMode,
        torch.inference_mode,
        lambda: torch.device("meta"),
        lambda: torch.device("cuda"),
        lambda: torch.autocast("cpu", torch.bfloat16),
        torch.no_grad,
    ],
    ids=["CommDebugMode", "DebugMode", "inference", "on meta", "on cuda", "autocast", "no_grad"],
)
def test_what_a_program_enters_does_not_change_the_answer(
    around: Callable[[], AbstractContextManager[object]],
) -> None:
    call = _sum_of(T33, T33)
    context = Context("", "cpu", around)
    assert same(ours(call, context), torchs(call, context))


def _plain_and_traced(ask: Callable[[], object]) -> tuple[list[str], Any]:
    answers: list[Answer] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        answers.append(answer_of(ask))
        return x + 1

    graph = make_fx(program, tracing_mode="fake")(torch.ones(2))
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"], answers


def test_nothing_is_recorded_in_a_graph_and_torch_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = schema_of(_sum_of(T33, T33), "cpu")
    expected = answer_of(lambda: output_meta(schema))
    monkeypatch.setattr(_torch, "torch_output_meta", None)
    calls, answers = _plain_and_traced(lambda: output_meta(schema))
    assert calls == ["aten.add.Tensor"]
    assert answers == [expected]


def test_functionalisation_and_transforms_do_not_see_the_call() -> None:
    schema = schema_of(_sum_of(T33, T33), "cpu")
    expected, answers = answer_of(lambda: output_meta(schema)), []

    def program(x: torch.Tensor) -> torch.Tensor:
        answers.append(answer_of(lambda: output_meta(schema)))
        return (x * 2).sum()

    torch.func.functionalize(program)(torch.ones(3))
    torch.func.vmap(program)(torch.ones(2, 3))
    torch.func.grad(program)(torch.ones(3))
    assert answers == [expected] * 3


def test_a_size_that_is_an_expression_is_torchs_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    env = ShapeEnv()
    source = torch._dynamo.source.ConstantSource("s")
    symbol = env.create_symbol(5, source=source, dynamic_dim=DimDynamic.DYNAMIC)
    size: Any = env.create_symintnode(symbol, hint=5, source=source)
    asked: list[OpSchema] = []
    monkeypatch.setattr(_torch, "torch_output_meta", asked.append)
    with FakeTensorMode(shape_env=env):
        for call in (
            _sum_of(Sketch((size, 3), stride=(3, 1)), T33),
            RecordedCall("aten.add.Tensor", (T33, size), {}),
            RecordedCall("aten.new_zeros.default", (T33, [size, 2]), {}),
        ):
            schema = schema_of(call, "cpu")
            output_meta(schema)
            assert asked.pop() is schema
    assert env.guards == []


def test_an_answer_is_kept_for_equal_calls_alone() -> None:
    ints = Sketch((3,), torch.int64)
    for _ in range(2):
        for number in (1, 1.0, True, 1j):
            call = RecordedCall("aten.add.Tensor", (ints, number), {})
            for context in CONTEXTS:
                assert same(ours(call, context), torchs(call, context))


def test_a_list_of_answers_is_the_callers_own() -> None:
    schema = schema_of(RecordedCall("aten.split.Tensor", (Sketch((4,)), 2), {}), "cpu")
    first: Any = output_meta(schema)
    first.clear()
    second: Any = output_meta(schema)
    assert len(second) == 2


def test_a_mutated_operand_is_not_shared() -> None:
    turned = RecordedCall("aten.transpose_.default", (Sketch((2, 3)), 0, 1), {})
    for _ in range(2):
        assert same(ours(turned, EAGER), torchs(turned, EAGER))
    assert has_elements(turned)
