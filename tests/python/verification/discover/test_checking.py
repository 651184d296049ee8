"""Rules that hold on one mesh dim, and not where the core composes rows or strides shards."""

from __future__ import annotations

import pytest
import torch

from shardprop.rules.registration import register_rule, temporary_rules
from shardprop.verification.calls.call import Call
from shardprop.verification.discover.discovery import discover
from shardprop.verification.discover.report import lines
from shardprop.verification.settings import Settings
from shardprop.verification.validate.check import check_op


@torch.library.custom_op("discovered::off_mean_of_four", mutates_args=())
def off_mean_of_four(x: torch.Tensor) -> torch.Tensor:
    """The distance of each row from the mean of its block of four."""
    return x - x.reshape(-1, 4, *x.shape[1:]).mean(1).repeat_interleave(4, 0)


@torch.library.custom_op("discovered::pairs_swapped", mutates_args=())
def pairs_swapped(x: torch.Tensor) -> torch.Tensor:
    """The two numbers of each pair swapped."""
    return x.reshape(*x.shape[:-1], -1, 2).flip(-1).reshape(x.shape)


@torch.library.custom_op("discovered::divided_by_next", mutates_args=())
def divided_by_next(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The quotient of x and what comes after y, which rises with x where y is not negative."""
    return x // (y + 1)


@divided_by_next.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("discovered::unknown_shape", mutates_args=())
def unknown_shape(x: torch.Tensor) -> torch.Tensor:
    """An op that torch knows nothing of without running it."""
    return x * 2


@off_mean_of_four.register_fake
@pairs_swapped.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shapes", "pattern"),
    [
        ("off_mean_of_four", [(24, 6)], "+w! m -> w m"),
        ("pairs_swapped", [(4, 24), (4, 12)], "+m w! -> m w"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_blocks_are_never_cut(name: str, shapes: list[tuple[int, ...]], pattern: str) -> None:
    op = getattr(torch.ops.discovered, name).default
    generator = torch.Generator().manual_seed(0)
    calls = [Call(op, (torch.randn(shape, generator=generator),)) for shape in shapes]
    found = discover(op, calls)
    assert found.rule is not None
    assert found.rule.partition(";")[0] == pattern
    assert any("_S(" in rows for rows in found.refuted)
    assert any(line.startswith("# left out, since ") for line in lines(found))
    with temporary_rules():
        register_rule(op, found.rule, override=True, variants=False)
        report = check_op(op, calls, Settings(missing=False))
    assert [one for one in report.unsound if "a shard is empty" not in one.reason] == []


def test_an_op_without_a_fake_kernel_is_told_to_be_unchecked() -> None:
    op = torch.ops.discovered.unknown_shape.default
    found = discover(op, [Call(op, (torch.randn(4, 6),))])
    assert found.rule is not None
    assert found.rule.startswith("+... -> ...")
    assert "fake kernel" in (found.unchecked or "")
    assert any(line.startswith("# not checked on several mesh dims") for line in lines(found))


def test_what_holds_of_natural_numbers_only_is_not_claimed() -> None:
    op = torch.ops.discovered.divided_by_next.default
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 9, (6, 6), generator=generator)
    y = torch.randint(0, 9, (6,), generator=generator)
    assert discover(op, [Call(op, (x, y))]).rule == "..., ... -> ..."
