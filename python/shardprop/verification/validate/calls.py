"""One call of an op on whole tensors: what a rule is put to the test with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ... import _torch
from ..._torch import OpOverload

__all__ = ["MADE_UP", "Call"]

# How the origin of a call begins that was filled in from the op's schema.
MADE_UP = "made up"


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
        leaves = _torch.tree_leaves((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
