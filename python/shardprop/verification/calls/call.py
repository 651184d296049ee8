"""One call of an op on whole tensors: what a rule is put to the test with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ... import _torch
from ..._torch import OpOverload

__all__ = ["MADE_UP", "Call", "is_plain", "tensors_in"]

# How the origin of a call begins that was filled in from the op's schema.
MADE_UP = "made up"


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in tuples, lists and dicts."""
    return [leaf for leaf in _torch.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def is_plain(tensor: torch.Tensor) -> bool:
    """Is it strided, and not quantized?"""
    return tensor.layout is torch.strided and not tensor.is_quantized


@dataclass(frozen=True)
class Call:
    """A call of an op on whole tensors.

    Attributes:
        op: The op overload.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        origin: Where the call is from, such as ``"OpInfo add, sample 3"``.
    """

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    origin: str = ""

    @property
    def is_made_up(self) -> bool:
        """Is it of no program and no sample?"""
        return self.origin.startswith(MADE_UP)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The operands in the order of a rule's row: of `args`, then of `kwargs`, lists walked."""
        return tensors_in((self.args, self.kwargs))

    def with_arguments(self, change: Callable[[Any], Any]) -> Call:
        """The call with another value for each argument, in their order."""
        args = tuple(map(change, self.args))
        kwargs = {name: change(value) for name, value in self.kwargs.items()}
        return Call(self.op, args, kwargs, self.origin)

    def with_tensors(self, change: Callable[[torch.Tensor], Any], note: str = "") -> Call:
        """The call on other tensors, with a note on that behind its origin."""
        return replace(self.on(map(change, self.tensors)), origin=self.origin + note)

    def on(self, operands: Iterable[Any]) -> Call:
        """The call with these in the places of its tensors, in their order."""
        rest = iter(operands)
        return self.with_arguments(lambda value: _placed(value, rest))

    def results(self) -> list[torch.Tensor] | None:
        """What the op returns, run on copies; None if it raises.

        Not fit for a process that must live: a kernel may crash on what nobody ever gave it.
        """
        copy = self.with_tensors(lambda tensor: tensor.detach().clone())
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                return tensors_in(self.op(*copy.args, **copy.kwargs))
        except Exception:
            return None


def _placed(value: Any, operands: Iterator[Any]) -> Any:
    """An argument with the next of the operands for each of its tensors."""
    if isinstance(value, torch.Tensor):
        return next(operands)
    if isinstance(value, (list, tuple)):
        return type(value)([_placed(item, operands) for item in value])
    return value
