"""Records what torch's sample inputs call: every op that DTensor would be asked about.

torch's OpInfo database (torch.testing._internal) has sample inputs for 700 Python functions. Each
is run on the CPU, forward and backward, below a dispatch mode that notes the ops it comes down to:
what DTensor sees of a program. Recording belongs into a process of its own, because importing the
database changes torch's settings.
"""

from __future__ import annotations

import itertools
import random
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from .sketch import Sketch, leaves

# Distinct calls kept of one overload by one pass; a view or a copy is called in hundreds of ways.
_PER_OVERLOAD = 24


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of an op, sketches where the tensors were; by name, to be sent between processes."""

    op: str  # as torch prints it, "aten.add.Tensor"
    args: tuple[object, ...]
    kwargs: dict[str, object]


@dataclass
class Recording:
    """The calls of one pass, and the OpInfos that gave none, each with the reason."""

    calls: list[RecordedCall] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass:
    """One way to go through the database."""

    sizes: Mapping[str, int]  # for the constants that torch's sample inputs take their sizes from
    dtypes: Sequence[torch.dtype]  # the first one that an OpInfo takes
    samples: int  # of each OpInfo
    backward: bool = False
    variants: bool = False  # the in-place and out= forms as well


_DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool, torch.bfloat16)

PASSES = (
    # Sizes that most meshes divide, and torch's own, 3 to 20, that few divide.
    Pass({"XS": 4, "S": 8, "M": 16, "L": 24}, _DTYPES, samples=16, backward=True),
    Pass({"XS": 3, "S": 5, "M": 10, "L": 20}, _DTYPES, samples=8, backward=True),
    # Other dtypes, and the forms that write into their operands.
    Pass(
        {"XS": 3, "S": 6, "M": 10, "L": 20},
        (torch.bfloat16, torch.int64, *_DTYPES),
        samples=8,
        variants=True,
    ),
)


def record(which: Pass) -> Recording:
    """Goes through the whole database; takes two to five seconds."""
    torch.set_num_threads(1)
    # torch's own seeds accelerators too, absent ones by keeping a traceback: half the time.
    torch.manual_seed = torch.default_generator.manual_seed
    recording = Recording()
    seen: dict[str, dict[str, RecordedCall]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in _database(which.sizes):
            torch.manual_seed(0)
            random.seed(0)
            calls, error = _calls_of(info, which)
            for call in calls:
                seen.setdefault(call.op, {}).setdefault(str(call), call)
            if not calls:
                name = f"{info.name}.{info.variant_test_name}".rstrip(".")
                recording.failed[name] = error or "calls no op with a tensor"
    for by_text in seen.values():
        # Any order that neither depends on the sources nor changes from run to run.
        texts = sorted(by_text, key=lambda text: zlib.crc32(text.encode()))
        recording.calls += [by_text[text] for text in texts[:_PER_OVERLOAD]]
    return recording


# Details ------------------------------------------------------------------------------------------


def _database(sizes: Mapping[str, int]) -> Iterator[Any]:
    from torch.testing._internal import common_methods_invocations as database

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal"):
            for constant, size in sizes.items():
                if isinstance(getattr(module, constant, None), int):
                    setattr(module, constant, size)
    yield from database.op_db
    for kind in ("unary", "binary", "pointwise", "reduce", "other"):
        yield from getattr(database, f"foreach_{kind}_op_db")


def _calls_of(info: Any, which: Pass) -> tuple[list[RecordedCall], str | None]:
    """What the samples of an OpInfo call, and the last error if there was one."""
    dtype = next((dtype for dtype in which.dtypes if dtype in info.dtypes), None)
    if dtype is None:
        return [], f"takes on the CPU only {sorted(map(str, info.dtypes))}"
    backward = which.backward and info.supports_autograd and dtype.is_floating_point
    options = {"num_input_tensors": [3]} if info.name.startswith("_foreach_") else {}
    recorder = _Recorder()
    error: str | None = None
    try:
        # info.sample_inputs() looks for the running test in the stack: nine tenths of the time.
        samples = iter(info.sample_inputs_func(info, "cpu", dtype, backward, **options))
        for sample in itertools.islice(samples, which.samples):
            for attempt in _attempts(info, sample, which, backward):
                try:
                    with recorder:
                        attempt()
                except Exception as failure:  # a sample that this build or this form refuses
                    error = f"{type(failure).__name__}: {failure}".splitlines()[0]
    except Exception as failure:  # of the generator of samples, which is then exhausted
        error = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return recorder.calls, error


def _attempts(info: Any, sample: Any, which: Pass, backward: bool) -> Iterator[Callable[[], Any]]:
    """The ways to run one sample; what they need is made before they are run."""

    def run(operator: Callable[..., Any] = info, **more: object) -> Any:
        return operator(sample.input, *sample.args, **sample.kwargs, **more)

    if backward:
        yield lambda: _run_backward(run(), (sample.input, sample.args, sample.kwargs))
        return
    yield run
    if not which.variants:
        return
    if info.supports_out:
        outs = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, run())
        yield lambda: run(out=outs)
    inplace = info.get_inplace()
    if inplace is not None:
        sample.input = tree_map(torch.Tensor.clone, sample.input)
        yield lambda: run(inplace)


def _run_backward(result: object, inputs: object) -> None:
    wanted = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    made = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
    if made:
        torch.autograd.grad(made, wanted, [torch.ones_like(x) for x in made], allow_unused=True)


class _Recorder(TorchDispatchMode):
    """Notes every call that DTensor would be asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[RecordedCall] = []

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        call = _call(func, args, kwargs)  # before an in-place op changes what it is given
        result = func(*args, **kwargs)
        # Out tensors that had to be resized come back from torch's fake kernels in their old size
        # or in the new one, depending on whether its cache of fake calls answers.
        resized = func._schema.is_mutable and any(
            call is not None and call.kwargs[argument.name] != _described(kwargs[argument.name])
            for argument in func._schema.arguments
            if argument.is_out and argument.name in kwargs
        )
        if call is not None and not resized:
            self.calls.append(call)
        return result


def _call(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RecordedCall | None:
    """The call as DTensor would see it; None if it has no tensor or what it has cannot be told."""
    if func.namespace not in ("aten", "prims"):
        return None
    try:
        described = {name: _described(value) for name, value in kwargs.items()}
        call = RecordedCall(str(func), tuple(map(_described, args)), described)
    except _Indescribable:
        return None
    has_tensors = any(True for _ in leaves(Sketch, (*call.args, *call.kwargs.values())))
    return call if has_tensors else None


class _Indescribable(Exception):
    """A sparse tensor, a generator: not a part of any question DTensor can be asked."""


_VALUES = (
    *(bool, int, float, complex, str, type(None)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)


def _described(value: object) -> object:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.is_nested:
            raise _Indescribable
        return Sketch.of(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_described, value))
    if type(value) in _VALUES:
        return value
    raise _Indescribable
