"""Notes which ops the installed torch refuses and shardprop decides, for docs/corrections.md.

python -m tools.refused_ops
python -m tools.corrections_page > docs/corrections.md

It asks about each op without a rule, on calls of torch's own samples and on four layouts of each,
and takes some minutes.
"""

from __future__ import annotations

import json

import torch.distributed as dist
from tools.torch_faults import FOLDER, version
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import shardprop
from shardprop._torch import OpOverload
from shardprop.propagation.route import Who, route_of

OPS = FOLDER / "refused_ops.json"


def recorded() -> dict[str, list[str]]:
    """The ops, by version of torch."""
    found: dict[str, list[str]] = json.loads(OPS.read_text())
    return found


def _is_refused(op: OpOverload, mesh: DeviceMesh) -> bool:
    """Does torch refuse one of the calls, and do we decide it?"""
    from tests.python.agreement.questions import questions_of
    from tests.python.quiet import quiet

    for question in questions_of(op, mesh):
        try:
            with quiet():
                decision = shardprop.propagate(op, *question.args, **question.kwargs)
        except shardprop.ShardpropError:  # both refuse it
            continue
        if decision.refused_by_torch:
            return True
    return False


def main() -> None:
    """Note the ops of this torch."""
    # Here, since the page asks for what is noted alone.
    from tests.python.agreement.samples import decided_ops
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    mesh = init_device_mesh("cpu", (4,))
    with shardprop.enabled():
        asked = [op for op in decided_ops() if route_of(op).who is Who.DECOMPOSITION]
        refused = [str(op) for op in asked if _is_refused(op, mesh)]
    dist.destroy_process_group()
    known = recorded() if OPS.exists() else {}
    OPS.write_text(json.dumps({**known, version(): refused}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
