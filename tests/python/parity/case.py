"""One decision to compare: an op and its arguments, tensors laid out on meshes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch._ops import OpOverload
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema

from .layouts import Kind, Operand
from .meshes import MeshKey
from .registry import Form, form_of, propagator
from .sketch import leaves, map_leaves


@dataclass(frozen=True)
class Case:
    """``args`` and ``kwargs`` hold `Operand` where the op takes tensors.

    Specs are made anew by each use, because torch's propagation may write into them.
    """

    op: OpOverload
    args: tuple[object, ...]
    kwargs: dict[str, object]
    mesh: MeshKey
    family: str
    kind: Kind
    samples: str = ""  # where the call comes from
    name: str = field(default="", compare=False)  # "seed:index", for replay

    @property
    def form(self) -> Form:
        return form_of(self.op)

    @property
    def args_schema(self) -> tuple[object, ...]:
        return tuple(map_leaves(Operand, _spec, arg) for arg in self.args)

    @property
    def kwargs_schema(self) -> dict[str, object]:
        return {name: map_leaves(Operand, _spec, value) for name, value in self.kwargs.items()}

    def schema(self) -> OpSchema:
        """What DTensor's dispatcher would hand to the propagator."""
        owner = propagator()
        info = owner.op_to_schema_info.get(self.op)
        if info is None:
            info = owner.op_to_schema_info_for_single_dim_strategy.get(self.op)
        return OpSchema(self.op, self.args_schema, self.kwargs_schema, schema_info=info)

    def operands(self) -> Iterator[Operand]:
        yield from leaves(Operand, (*self.args, *self.kwargs.values()))

    def __str__(self) -> str:
        args = [_text(arg) for arg in self.args]
        args += [f"{name}={_text(value)}" for name, value in self.kwargs.items()]
        return f"{self.op}({', '.join(args)}) on mesh {self.mesh}"


def _spec(operand: Operand) -> DTensorSpec:
    return operand.spec()


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)
