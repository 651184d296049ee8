"""Calls of ops as torch's own sample inputs make them, forward and backward.

torch's OpInfo database has sample inputs for 700 Python functions. They are run on the CPU below a
dispatch mode that keeps what they come down to.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import warnings
from collections.abc import Callable, Collection
from typing import Any

import torch

from ... import _torch
from ..._torch import OpOverload, TorchDispatchMode
from .call import Call, is_plain, tensors_in
from .choice import features, is_small

__all__ = ["Recording", "record"]

# Samples of one function, and distinct calls kept of one op.
_SAMPLES = 16
_KEPT = 48

# 6 is divided by two and three ranks, 4 by two alone. torch has 3, 5, 10 and 20.
_SIZES = {"XS": 4, "S": 6, "M": 12, "L": 24}

# Values that say most of a rule: 64 bits leave little to rounding.
_EXACT = (torch.float64, torch.float32, torch.complex128, torch.int64, torch.bool)

Recording = dict[OpOverload, list[Call]]


def record(
    ops: Collection[OpOverload], seed: int = 0, every_sample: bool = False, times: int = 1
) -> Recording:
    """Calls of `ops`, by op; of those that no sample calls there are none.

    Args:
        ops: The ops of interest.
        seed: Of the samples' values.
        every_sample: Go through the whole database (some ten seconds) instead of the functions
            whose names are like those of the ops.
        times: Multiplies the samples of a function, and the calls kept of an op.
    """
    names = None if every_sample else {form for op in ops for form in _forms(op)}
    recorder = _Recorder(ops, times)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are small: threads would wait for each other
    # torch's own seeds accelerators too, absent ones by keeping a traceback: half the time.
    seed_everything = torch.default_generator.manual_seed
    seeding = torch.manual_seed
    torch.manual_seed = seed_everything
    try:
        with warnings.catch_warnings(), _torch.opinfos(_SIZES) as infos:
            warnings.simplefilter("ignore")
            for info in infos:
                if names is None or names & _names(info):
                    seed_everything(seed)
                    random.seed(seed)
                    _run(info, recorder)
    finally:
        torch.manual_seed = seeding
        torch.set_num_threads(threads)
    return recorder.calls


# What differs between the names of a function and of the ops that it comes down to.
_AROUND = re.compile(
    r"^(_?native_|_?cudnn_|_?mkldnn_|_foreach_|_fused_|_scaled_|_+)"
    r"|(_backward(_data|_input|_weight)?|_forward|_copy|_scatter|_impl|_helper|_)$"
)


def _forms(op: OpOverload) -> set[str]:
    """The name of an op, and what it becomes without its beginning and its end."""
    name: str = _torch.function_schema(op).name.partition("::")[2]
    forms = {name}
    while True:
        more = {
            form[: m.start()] + form[m.end() :] for form in forms for m in _AROUND.finditer(form)
        }
        if more <= forms:
            return forms - {""}
        forms |= more


def _names(info: Any) -> set[str]:
    """The names of a function as ops are called."""
    names = {info.name, info.aten_name or "", info.aten_backward_name or ""}
    names |= {alias.name for alias in info.aliases or ()}
    names = {name.removeprefix("nn.functional.").removeprefix("_refs.") for name in names}
    return {name.replace(".", "_") for name in names} - {""}


def _run(info: Any, recorder: _Recorder) -> None:
    """Run samples of one function: backward where it can be, then whole, then on integers."""
    dtype = next((dtype for dtype in _EXACT if dtype in info.dtypes), None)
    if dtype is None:
        return
    backward = bool(info.supports_autograd) and (dtype.is_floating_point or dtype.is_complex)
    _run_samples(info, dtype, backward, _forward_backward if backward else _forward, recorder)
    # Without autograd ops come whole that it takes apart.
    _run_samples(info, dtype, False, _in_inference_mode, recorder)
    if dtype.is_floating_point and torch.int64 in info.dtypes:
        _run_samples(info, torch.int64, False, _forward, recorder)


def _run_samples(
    info: Any,
    dtype: torch.dtype,
    needs_grad: bool,
    run: Callable[[Any, Any], object],
    recorder: _Recorder,
) -> None:
    options = {"num_input_tensors": [3]} if info.name.startswith("_foreach_") else {}
    try:
        # info.sample_inputs() looks for the running test in the stack: nine tenths of the time.
        samples = iter(info.sample_inputs_func(info, "cpu", dtype, needs_grad, **options))
        for number, sample in enumerate(itertools.islice(samples, recorder.samples)):
            recorder.origin = f"OpInfo {info.name}, {dtype}, sample {number}".replace("torch.", "")
            # A sample that this build of torch refuses; its other samples may do.
            with contextlib.suppress(Exception), recorder:
                run(info, sample)
    except Exception:  # of the generator of samples, which is then exhausted
        return


def _forward(info: Any, sample: Any) -> Any:
    return info(sample.input, *sample.args, **sample.kwargs)


def _in_inference_mode(info: Any, sample: Any) -> Any:
    with torch.inference_mode():
        return _forward(info, sample)


def _forward_backward(info: Any, sample: Any) -> None:
    given = tensors_in((sample.input, sample.args, sample.kwargs))
    wanted = [x for x in given if x.requires_grad]
    made = [x for x in tensors_in(_forward(info, sample)) if x.requires_grad]
    if made and wanted:
        torch.autograd.grad(made, wanted, [torch.ones_like(x) for x in made], allow_unused=True)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps calls of the wanted ops that differ in what a rule may look at."""

    def __init__(self, wanted: Collection[OpOverload], times: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._wanted = wanted
        self._kept = times * _KEPT
        self.samples = times * _SAMPLES
        self._known: dict[OpOverload, set[frozenset[Any]]] = {}
        self.calls: Recording = {}
        self.origin = ""

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in self._wanted and len(self.calls.get(func, ())) < self._kept:
            self._keep(func, args, kwargs)
        return func(*args, **kwargs)

    def _keep(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves = _torch.tree_leaves((args, kwargs))
        if not is_small(args, kwargs) or not all(map(_can_be_kept, leaves)):
            return
        key = features(args, kwargs)
        known = self._known.setdefault(func, set())
        if key in known:
            return
        known.add(key)
        # Copied now, before an in-place op changes them; an inference tensor becomes a plain one.
        with torch.inference_mode(False), torch.no_grad():
            call = Call(func, args, kwargs, self.origin)
            copy = call.with_tensors(lambda tensor: tensor.detach().clone())
        if copy.tensors:
            self.calls.setdefault(func, []).append(copy)


def _can_be_kept(leaf: Any) -> bool:
    if isinstance(leaf, torch.Tensor):
        return is_plain(leaf) and leaf.device.type == "cpu"
    return not isinstance(leaf, torch.Generator)
