"""What a plan may lead from and to."""

from __future__ import annotations

from torch.distributed.device_mesh import init_device_mesh

import shardprop

from ..specs import R, S, spec_of


def test_equal_meshes_are_one_mesh(process_group: None) -> None:
    src, dst = (
        spec_of(init_device_mesh("cpu", (4,)), (8, 8), [placement]) for placement in (S(0), R)
    )
    assert src.mesh is not dst.mesh
    for policy in ("torch", "optimal"):
        plan = shardprop.plan(src, dst, policy=policy, topology="torch")
        assert [step.kind for step in plan.steps] == ["all_gather"]
