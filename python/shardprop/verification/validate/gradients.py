"""Ops as DTensor carries them out, forward and backward, against one device.

The rows of a rule say nothing of backward, nor of what the decisions of several ops come to. So
each call is carried out, with the decisions that are in force, in several layouts on small meshes.
"""

from __future__ import annotations

import math
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from ...propagation.propagator import enabled, is_enabled
from ...support.torch_advice import without_torch_advice
from ..calls.call import Call
from ..settings import Settings
from ..simulator.execution import Executable
from ..simulator.partials import Untestable
from ..simulator.simulation import Row, is_replicated
from ..texts import call_text, row_text
from .dtensor_run import Fault, OneDevice, Run, carried_out, kind_of_error
from .layouts import layouts_to_try
from .results import Finding
from .run_script import smallest_run_script

__all__ = ["Ran", "check_gradients"]


@dataclass
class Ran:
    """What became of the calls that were carried out, as plain data.

    Attributes:
        findings: Results and gradients that are wrong, and runs in which ranks raise alone.
        runs: Calls that were carried out on ranks, forward and backward.
        gradients: Gradients that were compared.
        skipped: What was left out, counted by reason.
        is_complete: Was every call tried?
    """

    findings: list[Finding] = field(default_factory=list)
    runs: int = 0
    gradients: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    is_complete: bool = False


def check_gradients(
    calls: Sequence[Call], settings: Settings, deadline: float = math.inf
) -> Iterator[Ran]:
    """Carry out the calls in several layouts; what is known after each call, the last complete.

    Args:
        calls: The calls, each of which gives the same whenever it is made.
        settings: What is tried.
        deadline: The time, as of ``time.monotonic``, after which no further call is begun.
    """
    checker = _Checker(settings)
    with _in_force(settings), without_torch_advice(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            if time.monotonic() > deadline:
                checker.ran.skipped["gradients: time limit"] += 1
                break
            checker.check(call, deadline)
            yield checker.ran
    checker.ran.is_complete = True
    yield checker.ran


def _in_force(settings: Settings) -> AbstractContextManager[None]:
    """What decides: what is enabled, else what `enable` has by default; torch, where asked for."""
    if settings.rule == "torch":
        return enabled(corrections=False)
    return nullcontext() if is_enabled() else enabled()


class _Checker:
    def __init__(self, settings: Settings) -> None:
        self.ran = Ran()
        self._settings = settings
        self._chance = random.Random(settings.seed)
        self._known: set[object] = set()

    def check(self, call: Call, deadline: float) -> None:
        """Carry out one call on all meshes."""
        executable = Executable(call.with_tensors(_as_held))
        try:
            whole = OneDevice(executable, self._settings.seed)
        except Exception as error:  # that of the op, which raises where autograd takes it apart
            self.ran.skipped[f"gradients: the op raises: {kind_of_error(error)}"] += 1
            return
        if whole.without_gradients:
            self.ran.skipped[f"gradients: {whole.without_gradients}"] += 1
        meshes = [(ranks,) for ranks in self._settings.ranks]
        for sizes in (*meshes, *filter(None, [self._settings.composed])):
            to_try = layouts_to_try(executable, sizes, self._settings, self._chance)
            for number, layouts in enumerate(to_try):
                if time.monotonic() > deadline:
                    return
                self._try(whole, Run(executable.call, sizes, layouts, number), deadline)

    def _try(self, whole: OneDevice, run: Run, deadline: float) -> None:
        try:
            made, fault = carried_out(whole, run, self._settings.seed)
        except Untestable as error:
            self.ran.skipped[f"gradients: {error}"] += 1
            return
        self.ran.runs += made.has_run
        self.ran.gradients += made.compared
        self.ran.skipped.update(f"gradients: {reason}" for reason in made.refused)
        if fault is None:
            return
        rows = {(fault.subject, row) for row in zip(*run.layouts, strict=True)}
        if rows.isdisjoint(self._known):
            script = smallest_run_script(run, fault, self._settings, deadline)
            self.ran.findings.append(_finding(run, fault, script))
        self._known |= {known for known in rows if not is_replicated(known[1])}


def _finding(run: Run, fault: Fault, script: str) -> Finding:
    rows = [
        Row(
            tuple(None if layout is None else layout[at] for layout in fault.outputs),
            tuple(layout[at] for layout in run.layouts),
        )
        for at in range(len(run.sizes))
    ]
    return Finding(
        kind="wrong",
        rows=tuple(map(row_text, rows)),
        mesh=run.sizes,
        call=call_text(run.call),
        reason=f"{fault.subject}: {fault.reason}",
        repro=script,
        raises=fault.raises,
    )


# Floats of half as many digits: the sum of pending parts is exact, and an op that compares sees
# what one device does.
_SHORTER = {
    torch.float64: torch.float32,
    torch.float32: torch.bfloat16,
    torch.complex128: torch.complex64,
}


def _as_held(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous, as the ranks hold their parts of it, and of few digits."""
    held = tensor.detach().clone(memory_format=torch.contiguous_format)
    short = held.to(_SHORTER.get(held.dtype, held.dtype)).to(held.dtype)
    return torch.where(short.isfinite(), short, held)
