"""Where events come from: the user's line, the module, and a backward's forward."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.checkpoint import checkpoint

import shardprop
from shardprop.inspection.tracing import Trace

from ...specs import S
from .models import Block, Model, batch, dtensor, line_of

MeshOf = Callable[..., DeviceMesh]


def _places(trace: Trace, op: str) -> list[tuple[str, int, bool]]:
    events = [d for d in trace.decisions if d.op == op]
    return [(d.place.module, d.place.line, d.place.backward) for d in events]


def test_a_decision_has_the_line_that_called_the_op(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t:
        torch.nn.functional.silu(x)  # here
    place = t.decisions[0].place
    assert place.file == __file__
    assert place.line == line_of(test_a_decision_has_the_line_that_called_the_op, "# here\n")
    assert place.function.endswith("test_a_decision_has_the_line_that_called_the_op")
    assert (place.module, place.backward) == ("", False)
    assert str(place) == f"{__file__}:{place.line}"


def test_modules_have_paths_from_the_class_that_is_called_first(mesh_of: MeshOf) -> None:
    model = Model(mesh_of(2))
    with shardprop.trace() as t:
        model(batch(mesh_of(2)))
    line = line_of(Block, "# the product")
    assert _places(t, "aten.mm.default") == [("Model.blocks.0", line, False)]
    assert _places(t, "aten.sum.default") == [("Model", line_of(Model, "# the sum"), False)]
    second = [r for r in t.redistributions if r.place.module == "Model.blocks.1"]
    assert {(r.op, r.place.line) for r in second} == {("aten.mm.default", line)}, "a hit"


def test_a_model_that_is_given_has_its_own_paths(mesh_of: MeshOf) -> None:
    model = Model(mesh_of(2))
    with shardprop.trace(model) as t:
        model(batch(mesh_of(2)))
    assert [module for module, *_ in _places(t, "aten.mm.default")] == ["blocks.0"]
    assert [module for module, *_ in _places(t, "aten.sum.default")] == ["Model"]


def test_a_backward_has_module_and_line_of_its_forward(mesh_of: MeshOf) -> None:
    model = Model(mesh_of(2))
    with shardprop.trace() as t:
        model(batch(mesh_of(2))).backward()
    line = line_of(Block, "# the product")
    forward, *backward = _places(t, "aten.mm.default")
    assert not forward[2]
    assert backward and all(of_backward for *_, of_backward in backward)
    # The forward of the second block hit the cache, but moved an operand: the line is known.
    assert {place[:2] for place in backward} <= {("Model.blocks.0", line), ("Model.blocks.1", line)}
    assert ("Model.blocks.1", line, True) in backward


def test_what_an_op_saves_does_not_hide_its_line(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)]).requires_grad_()
    with shardprop.trace() as t:
        y = torch.relu(x)  # its result is saved, by a detach  # here
        y.sum().backward()
    ops = [d.op for d in t.decisions]
    assert ops.index("aten.relu.default") < ops.index("aten.detach.default")
    line = line_of(test_what_an_op_saves_does_not_hide_its_line, "# here\n")
    assert _places(t, "aten.threshold_backward.default") == [("", line, True)]


def test_a_backward_whose_forward_is_unknown_has_the_line_of_the_backward(mesh_of: MeshOf) -> None:
    loss = Model(mesh_of(2))(batch(mesh_of(2)))
    with shardprop.trace() as t:
        loss.backward()  # here
    places = {d.place for d in t.decisions if d.place.backward}
    here = line_of(
        test_a_backward_whose_forward_is_unknown_has_the_line_of_the_backward, "# here\n"
    )
    assert places
    assert {(p.module, p.line) for p in places} == {("", here)}


def test_the_second_of_two_steps_has_modules_of_its_own_forward(mesh_of: MeshOf) -> None:
    model = Model(mesh_of(2))
    with shardprop.trace() as t:
        for _ in range(2):
            model(batch(mesh_of(2))).backward()
    moves = [r for r in t.redistributions if r.op == "aten.mm.default" and r.place.backward]
    half = len(moves) // 2
    first, second = moves[:half], moves[half:]
    assert half > 0
    assert [r.place for r in first] == [r.place for r in second]


def test_a_forward_run_again_in_backward_is_of_its_module(mesh_of: MeshOf) -> None:
    class Checkpointed(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x.sum()

    model = Checkpointed(mesh_of(2))
    with shardprop.trace() as t:
        model(batch(mesh_of(2)).requires_grad_()).backward()
    line = line_of(Block, "# the product")
    again = [r.place for r in t.redistributions if r.place.backward and r.place.line == line]
    assert {place.module.rpartition(".")[2] for place in again} >= {"0", "1"}


def test_an_exception_in_a_module_leaves_it(mesh_of: MeshOf) -> None:
    class Failing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError(x.shape)

    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t:
        try:
            torch.nn.Sequential(Failing())(x)
        except KeyError:
            x.sin()
    assert [d.place.module for d in t.decisions] == [""]


def test_modules_made_on_the_fly_have_the_path_of_what_runs_them(mesh_of: MeshOf) -> None:
    class Maker(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.SiLU()(x)

    with shardprop.trace() as t:
        Maker()(dtensor(mesh_of(2), (8, 8), [S(0)]))
    assert [d.place.module for d in t.decisions] == ["Maker.SiLU"]


def test_a_backward_in_another_thread_has_the_module_of_its_forward(mesh_of: MeshOf) -> None:
    model = Model(mesh_of(2))
    with shardprop.trace() as t:
        loss = model(batch(mesh_of(2)))
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    backward = [d for d in t.decisions if d.place.backward and d.op == "aten.mm.default"]
    assert {d.thread for d in backward} == {thread.ident}
    assert {d.place.line for d in backward} == {line_of(Block, "# the product")}
    assert {d.place.module for d in backward} <= {"Model.blocks.0", "Model.blocks.1"}


@pytest.mark.slow
def test_modules_of_the_program_are_let_go(mesh_of: MeshOf) -> None:
    model = Model(mesh_of(2))
    gone = weakref.ref(model)
    with shardprop.trace(model):
        pass
    del model
    gc.collect()
    assert gone() is None
