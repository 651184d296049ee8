"""A transformer block at ever new sequence lengths: of each op, every length is a miss.

A round is one length: 2,000 of them for us, 10 of the same range for torch alone, so that the
medians are those of like lengths. The local work, which is the same for both, is part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch

import shardprop
from shardprop.propagation.timing import watch_propagation

from .block import Block
from .conftest import MESHES
from .training import described, forget

LENGTHS = range(8, 2_008)
COMMON = LENGTHS[100::200]  # for torch alone, which takes 5 s for one


class Program:
    """The block at one length after the other; `next_length` prepares what `__call__` runs."""

    def __init__(self, block: Block, job: str, lengths: Iterable[int]) -> None:
        self._block, self._backward = block, job != "forward"
        self._lengths: Iterator[int] = iter(lengths)

    def next_length(self) -> None:
        length = next(self._lengths)
        self._tokens = self._block.tokens(length).requires_grad_(self._backward)
        self._gradient = self._block.tokens(length)

    def __call__(self) -> None:
        with torch.set_grad_enabled(self._backward):
            out = self._block(self._tokens)
        if self._backward:
            torch.autograd.grad(out, [self._tokens, *self._block.parameters()], self._gradient)


_decided_by_torch: dict[str, list[Any]] = {}


@pytest.mark.parametrize("job", ["forward", "forward and backward"])
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_block_at_new_lengths(who: str, job: str, mesh_of: Any, run: Any) -> None:
    torch.manual_seed(0)
    block = Block(mesh_of(*MESHES[2]))
    group = f"block at a new sequence length, {job} 2-D"

    def decisions() -> list[Any]:
        """All that is decided for the common lengths, in order."""
        found: list[Any] = []
        program = Program(block, job, COMMON)
        forget()
        with watch_propagation(lambda asked, answer, _: found.append((asked, described(answer)))):
            for _ in COMMON:
                program.next_length()
                program()
        return found

    def measure(lengths: range) -> None:
        program = Program(block, job, lengths)
        forget()
        run(program, len(lengths), group, before=program.next_length)

    if who == "torch":
        found: list[Any] = []
        with watch_propagation(lambda asked, answer, _: found.append((asked, described(answer)))):
            measure(COMMON)
        _decided_by_torch[job] = found
        return
    with shardprop.enabled(strict=True):
        measure(LENGTHS)
        ours = decisions()
    if job not in _decided_by_torch:
        _decided_by_torch[job] = decisions()
    assert len(ours) > 20 * len(COMMON)
    assert ours == _decided_by_torch[job]
