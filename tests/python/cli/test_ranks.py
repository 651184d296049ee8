"""Meshes as they are typed, and process groups that stand in for real ones."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from shardprop import ShardpropError
from shardprop.cli.ranks import fake_ranks, keeping_the_group, mesh_names, mesh_sizes


def test_sizes_and_names_of_a_mesh() -> None:
    assert mesh_sizes("2x4x1") == (2, 4, 1)
    assert mesh_names("dp, tp", 2) == ("dp", "tp")
    assert mesh_names(None, 2) is None


@pytest.mark.parametrize(
    "text", ["", "2x", "x2", "0", "2x0", "-2", "2*2", "4096x2", "x".join("1" * 9)]
)
def test_a_mesh_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ShardpropError, match="--mesh: Expected"):
        mesh_sizes(text)


def test_too_many_ranks_are_told_from_a_text_that_is_no_mesh() -> None:
    with pytest.raises(ShardpropError, match="at most 8 dims and 4096 ranks, got '99999'"):
        mesh_sizes("99999")


@pytest.mark.parametrize("text", ["dp", "dp,dp", "dp,", "dp,1"])
def test_names_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ShardpropError, match="--mesh-dims: Expected 2 different names"):
        mesh_names(text, 2)


def test_a_fake_group_that_is_there_is_used_and_left(process_group: None) -> None:
    ranks = dist.get_world_size()
    with fake_ranks(ranks):
        assert dist.get_world_size() == ranks
    assert dist.is_initialized()
    with pytest.raises(ShardpropError, match="a fake one of at least"), fake_ranks(ranks + 1):
        raise AssertionError("the block is not entered")


def test_the_group_lives_to_the_end_though_it_is_destroyed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(dist, "destroy_process_group", lambda group=None: calls.append("destroy"))
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: calls.append("init"))
    before = dist.init_process_group, dist.destroy_process_group
    with keeping_the_group(is_given=False):
        dist.destroy_process_group()
        assert calls == []
        dist.init_process_group("gloo")
        assert calls == ["destroy", "init"], "a second group is in the place of the first"
        dist.destroy_process_group("another group")  # type: ignore[arg-type]
        assert calls[2:] == ["destroy"]
        dist.destroy_process_group()
    assert calls[3:] == ["destroy"], "at the end"
    assert (dist.init_process_group, dist.destroy_process_group) == before


def test_a_given_group_is_neither_made_again_nor_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: calls.append("init"))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append("destroy"))
    with keeping_the_group(is_given=True):
        dist.init_process_group("nccl")
        dist.destroy_process_group()
    assert calls == []
