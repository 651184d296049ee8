"""One call as DTensor carries it out on all ranks, forward and backward, beside one device.

All ranks are in one process. The op goes through torch's own dispatcher, and so does its backward,
for two layouts of the gradients that come in. What the ranks hold of each result and each gradient
must be what one device has.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ... import _torch
from ..._torch import DTensor, NormPartial, Partial, is_partial, make_spec, meta_of
from ...model.placements import Placements
from ..calls.call import Call, is_plain
from ..simulator.candidates import REPLICATE
from ..simulator.compare import difference, is_rounded, largest, tolerance
from ..simulator.execution import Executable, outputs_in
from ..simulator.partials import Untestable
from ..simulator.ranks import Mismatch, join, split
from ..texts import error_text
from .meshes import ensure_process_group, mesh_of

__all__ = ["Fault", "OnRanks", "OneDevice", "Run", "carried_out", "kind_of_error"]

_SUM = Partial("sum")
# Kinds of Partial that are put together here; the others reduce what they have masked themselves.
_SIMULATED = (Partial, NormPartial)


class Run(NamedTuple):
    """A call on operands that are laid out over a mesh.

    Attributes:
        call: The call on whole tensors.
        sizes: Sizes of the mesh dims.
        layouts: Of each operand.
        number: Which of a call's runs it is: they take turns at what they try.
    """

    call: Call
    sizes: tuple[int, ...]
    layouts: tuple[Placements, ...]
    number: int = 0


class Fault(NamedTuple):
    """What is wrong with a run.

    Attributes:
        subject: What is wrong: ``"output 0"``, ``"gradient of self"``.
        reason: How it differs.
        outputs: The layouts of the outputs.
        raises: Did a rank raise, where others did not?
        incoming: The layouts of the gradients that came in; none where it is before backward.
    """

    subject: str
    reason: str
    outputs: tuple[Placements | None, ...] = ()
    raises: bool = False
    incoming: tuple[Placements, ...] = ()


# --- one device -------------------------------------------------------------------------------


def _results(executable: Executable, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """What an op returns and what it has written to, run so that autograd sees it."""
    written = set(executable.written)
    # A leaf of autograd is not written to.
    operands = [x.clone() if at in written else x for at, x in enumerate(leaves)]
    call = executable.call.on(operands)
    outputs = outputs_in(call.op(*call.args, **call.kwargs)).values()
    return [*outputs, *(operands[at] for at in executable.kept)]


class OneDevice:
    """A call on one device: results, gradients that come in, and gradients that come out.

    Attributes:
        executable: The call.
        names: Per result what it is called in a finding.
        results: What the op returns, and what it has written to.
        wanted: The operands that have a gradient.
        incoming: Per result that has one, its gradient.
        gradients: Per operand that is wanted, its gradient.
        without_gradients: Why there are none.
    """

    def __init__(self, executable: Executable, seed: int) -> None:
        self.executable = executable
        self.wanted: list[int] = []
        self.incoming: dict[int, torch.Tensor] = {}
        self.gradients: list[torch.Tensor | None] = []
        self.without_gradients = ""
        floats = [at for at, x in enumerate(executable.operands) if is_rounded(x.dtype)]
        if not _torch.has_derivative(executable.call.op):
            floats, self.without_gradients = [], "no derivative: none is registered"
        try:
            self.results = self._differentiated(floats, seed)
        except Exception as error:  # no derivative by some operand, or none for these arguments
            self.without_gradients = f"no derivative: {kind_of_error(error)}"
            able = [at for at in floats if self._is_differentiable(at, seed)]
            self.results = self._differentiated(able, seed)
        outputs = len(self.results) - len(executable.kept)
        self.names = [f"output {at}" for at in range(outputs)]
        self.names += [f"operand {at}, written to" for at in executable.kept]
        if not self.wanted and not self.without_gradients:
            self.without_gradients = "no operand or result that has one"

    def _is_differentiable(self, operand: int, seed: int) -> bool:
        try:
            self._differentiated([operand], seed)
        except Exception:
            return False
        return True

    def _differentiated(self, wanted: list[int], seed: int) -> list[torch.Tensor | None]:
        leaves = [
            x.detach().clone().requires_grad_(at in wanted)
            for at, x in enumerate(self.executable.operands)
        ]
        with torch.enable_grad():
            results = _results(self.executable, leaves)
        rng = torch.Generator().manual_seed(seed)
        incoming = {
            at: _of_few_digits(torch.randn(x.shape, dtype=x.dtype, generator=rng))
            for at, x in enumerate(results)
            if x is not None and x.requires_grad and is_plain(x)
        }
        if incoming:
            made = [x for at, x in enumerate(results) if x is not None and at in incoming]
            self.gradients = [*_gradients(made, [leaves[at] for at in wanted], incoming.values())]
            self.wanted, self.incoming = wanted, incoming
        return [None if x is None else x.detach() for x in results]

    def scale_for(self, expected: torch.Tensor) -> float:
        """The largest element of all that goes into a sum; larger where it is rounded to fewer
        digits on the way than `expected` has."""
        largest_of_all, coarsest = self._scale
        own = tolerance(expected.dtype, 1.0)
        return max(largest_of_all, largest(expected)) * (max(coarsest / own, 1.0) if own else 1.0)

    @functools.cached_property
    def _scale(self) -> tuple[float, float]:
        given = [*self.executable.operands, *self.incoming.values()]
        made = [x for x in self.results if x is not None]
        coarsest = max((tolerance(x.dtype, 1.0) for x in (*given, *made)), default=0.0)
        return max(map(largest, given), default=0.0), coarsest


def _of_few_digits(noise: torch.Tensor) -> torch.Tensor:
    """Without zeros, too: they hide what they are multiplied with."""
    if noise.is_complex():
        whole: torch.Tensor = torch.view_as_complex(_of_few_digits(torch.view_as_real(noise)))
        return whole
    coarse = (noise * 8).round() / 8
    return torch.where(coarse == 0, 1, coarse)


def _gradients(
    results: Sequence[torch.Tensor],
    leaves: Sequence[torch.Tensor],
    incoming: Iterable[torch.Tensor],
) -> Sequence[torch.Tensor | None]:
    found: Sequence[torch.Tensor | None] = torch.autograd.grad(
        results,
        leaves,
        [*incoming],
        retain_graph=True,
        allow_unused=True,
    )
    return found


# --- all ranks --------------------------------------------------------------------------------


def carried_out(whole: OneDevice, run: Run, seed: int) -> tuple[OnRanks, Fault | None]:
    """The run, and what is wrong with it.

    Raises:
        Untestable: simulated ranks cannot say.
    """
    ranks = math.prod(run.sizes)
    ensure_process_group(ranks)
    with _torch.all_ranks_at_once(ranks):
        on_ranks = OnRanks(whole, run, seed)
        return on_ranks, on_ranks.fault()


class OnRanks:
    """One run, while one process stands in for all ranks.

    Attributes:
        has_run: Did the op return something, as it does not where it is refused?
        compared: Gradients that were compared.
        refused: What all ranks alike refused, or one process cannot do for them.
        layouts: Those of the outputs, once it has run.
    """

    def __init__(self, whole: OneDevice, run: Run, seed: int) -> None:
        self._whole = whole
        self._run = run
        self._rng = torch.Generator().manual_seed(seed + 1)  # not that of what comes in
        self._mesh = mesh_of(run.sizes)
        self._ranks = math.prod(run.sizes)
        self.layouts: tuple[Placements | None, ...] = ()
        self._stage = "forward"
        self._incoming: tuple[Placements, ...] = ()
        self.has_run = False
        self.compared = 0
        self.refused: list[str] = []

    def fault(self) -> Fault | None:
        """What is wrong; None if nothing is, or nothing was computed."""
        try:
            return self._forward_and_backward()
        except _torch.RanksRaise as error:
            return self._fault(self._stage, str(error), raises=True)

    def _fault(self, subject: str, reason: str, raises: bool = False) -> Fault:
        placed = "; ".join(", ".join(map(str, x)) for x in dict.fromkeys(self._incoming))
        if placed:
            reason += f", where the gradient that comes in is placed {placed}"
        return Fault(subject, reason, self.layouts, raises, self._incoming)

    def _forward_and_backward(self) -> Fault | None:
        whole = self._whole
        leaves = [
            self._laid_out(x, layout).requires_grad_(at in whole.wanted)
            for at, (x, layout) in enumerate(
                zip(whole.executable.operands, self._run.layouts, strict=True)
            )
        ]
        try:
            with torch.enable_grad():
                results = _results(whole.executable, leaves)
        except _torch.RanksRaise:
            raise
        except Exception as error:  # torch refuses with whatever its code runs into
            self.refused.append(f"forward: {kind_of_error(error)}")
            return None
        self.has_run = True
        self.layouts = tuple(
            x.placements if isinstance(x, DTensor) else None
            for x in results[: len(results) - len(whole.executable.kept)]
        )
        if len(results) != len(whole.results):
            found = f"{len(results)} instead of {len(whole.results)}"
            return self._fault("outputs", found)
        for name, made, expected in zip(whole.names, results, whole.results, strict=True):
            reason = self._mismatch(made, expected)
            if reason is not None:
                return self._fault(name, reason)
        for at in whole.incoming:
            made = results[at]
            if made is None or not made.requires_grad:
                return self._fault(whole.names[at], "autograd does not see it")
        if not whole.incoming:
            return None
        differentiated = [known for at in whole.incoming if (known := results[at]) is not None]
        faults = (
            self._backward(leaves, differentiated, placed)
            for placed in self._layouts_of_incoming(differentiated)
        )
        return next((fault for fault in faults if fault is not None), None)

    def _backward(
        self,
        leaves: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
        placed: tuple[Placements, ...],
    ) -> Fault | None:
        whole = self._whole
        given = [
            self._laid_out(x, layout)
            for x, layout in zip(whole.incoming.values(), placed, strict=True)
        ]
        self._stage, self._incoming = "backward", placed
        try:
            found = _gradients(results, [leaves[at] for at in whole.wanted], given)
        except _torch.RanksRaise:
            raise
        except Exception as error:  # torch refuses with whatever its code runs into
            self.refused.append(f"backward: {kind_of_error(error)}")
            return None
        names = _names(whole.executable)
        is_pending = any(is_partial(p) for layout in placed for p in layout)
        for at, gradient, expected in zip(whole.wanted, found, whole.gradients, strict=True):
            if is_pending and expected is not None and not expected.isfinite().all():
                self.refused.append("backward: an infinite gradient, of which no parts add up")
                continue
            self.compared += 1
            reason = self._gradient_mismatch(gradient, expected, whole.executable.operands[at])
            if reason is not None:
                return self._fault(f"gradient of {names[at]}", reason)
        return None

    def _gradient_mismatch(
        self,
        gradient: torch.Tensor | None,
        expected: torch.Tensor | None,
        operand: torch.Tensor,
    ) -> str | None:
        """None stands for zeros."""
        if gradient is None:
            gradient_is_zero = expected is None or not expected.any()
            return None if gradient_is_zero else "there is none"
        zeros = torch.zeros_like(operand)
        return self._mismatch(gradient, zeros if expected is None else expected)

    def _laid_out(self, whole: torch.Tensor, layout: Placements) -> torch.Tensor:
        with _torch.no_local_tensors():  # else what is random is so on each rank
            local = split(whole, layout, self._run.sizes, self._rng)
        held = _torch.as_one_tensor([tensor.clone() for tensor in local])
        spec = make_spec(self._mesh, layout, meta_of(whole), strided_is_order=False)
        return _torch.dtensor_of(held, spec)

    def _layouts_of_incoming(self, made: Sequence[torch.Tensor]) -> list[tuple[Placements, ...]]:
        """How gradients that come in are placed: as the results, and replicated or pending."""
        ndim = len(self._run.sizes)
        own = [x.placements if isinstance(x, DTensor) else () for x in made]
        as_results = [tuple(REPLICATE if is_partial(p) else p for p in layout) for layout in own]
        replicated: list[Placements] = [(REPLICATE,) * ndim] * len(made)
        pending = [
            tuple(_SUM if p == REPLICATE else p for p in layout) if layout else (_SUM,) * ndim
            for layout in as_results
        ]
        other = replicated if self._run.number % 2 else pending
        return list(dict.fromkeys(map(tuple, (as_results, other))))

    def _mismatch(self, made: torch.Tensor | None, expected: torch.Tensor | None) -> str | None:
        """Why what the ranks hold is not what one device has; None if it is."""
        if expected is None or not is_plain(expected):
            return None
        if not isinstance(made, DTensor):
            return None if made is not None else "there is none"
        if made.shape != expected.shape:
            return f"shape {[*made.shape]} instead of {[*expected.shape]}"
        scale = self._whole.scale_for(expected)
        try:
            with torch.no_grad():
                all_full = self._full(made, expected.shape)
        except _torch.RanksRaise:
            raise
        except Exception as error:  # what one process cannot hold for all ranks
            self.refused.append(f"{self._stage}: gathering: {kind_of_error(error)}")
            return None
        if isinstance(all_full, str):
            return all_full
        for rank, full in enumerate(all_full):
            unlike = difference(full, expected, scale)
            if unlike is not None:
                return f"{unlike}, on rank {rank}" if len(all_full) > 1 else unlike
        return None

    def _full(self, made: DTensor, shape: Sequence[int]) -> list[torch.Tensor] | str:
        """What the ranks hold together, once where it is the same for all; else why it is not.

        Raises:
            Untestable: it has several masks, which processes refuse and one process mixes up.
        """
        spec = _torch.spec_of(made)
        masked = [p for p in spec.placements if is_partial(p) and type(p) not in _SIMULATED]
        if len(masked) > 1:
            raise Untestable(f"several {type(masked[0]).__name__} of one tensor")
        local = _torch.tensors_of_ranks(_torch.local_of(made), self._ranks)
        if _torch.has_default_order(spec):
            with contextlib.suppress(Untestable), _torch.no_local_tensors():
                try:
                    return [join(local, spec.placements, self._run.sizes, shape)]
                except Mismatch as error:
                    return str(error)
        return _torch.tensors_of_ranks(made.full_tensor(), self._ranks)


def _names(executable: Executable) -> dict[int, str]:
    """What the operands are called: by their arguments, numbered in lists."""
    return {
        operand: name if len(operands) == 1 else f"{name}[{number}]"
        for name, operands in executable.arguments.items()
        for number, operand in enumerate(operands)
    }


def kind_of_error(error: Exception) -> str:
    """An error in words that are the same for all sizes."""
    return re.sub(r"\d+", "N", error_text(error, 120))
