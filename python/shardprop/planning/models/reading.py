"""What was traced, read as a `Program`."""

from __future__ import annotations

import operator
from operator import attrgetter
from typing import Any

import torch
from torch import fx

from ..._torch import OpOverload, TensorMeta, function_schema, meta_of
from ...errors import ShardpropError
from .program import Node, Program, Ref, refs
from .tracing import Traced

__all__ = ["TRANSPARENT", "read"]

# What these return is their operand.
TRANSPARENT = frozenset(
    {torch.ops.aten.detach.default, torch.ops.aten.alias.default, torch.ops.aten.lift_fresh.default}
)


def read(traced: Traced) -> Program:
    """The program of a trace.

    Raises:
        ShardpropError: the model writes into its inputs or parameters.
    """
    return _Reader(traced).program()


class _Reader:
    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._nodes: list[Node] = []
        self._names: set[str] = set()
        # What each node of the graph stands for: a Ref, or a tuple of them.
        self._values: dict[fx.Node, Any] = {}
        # Per node of a buffer what it is to hold afterwards.
        self._written: dict[int, Ref] = {}

    def program(self) -> Program:
        traced = self._traced
        graph_nodes = list(traced.graph.nodes)
        placeholders = [node for node in graph_nodes if node.op == "placeholder"]
        counts = [
            ("parameter", len(traced.parameters)),
            ("buffer", len(traced.buffers)),
            ("input", traced.inputs),
            ("tangent", len(traced.tangents)),
        ]
        kinds = [kind for kind, count in counts for _ in range(count)]
        names = [*traced.parameters, *traced.buffers]
        by_kind: dict[str, list[int]] = {kind: [] for kind, _ in counts}
        for place, (node, kind) in enumerate(zip(placeholders, kinds, strict=True)):
            name = names[place] if place < len(names) else f"{kind}_{len(by_kind[kind])}"
            module = _module_of(name) if place < len(names) else ""
            by_kind[kind].append(self._enter(node, name, kind, module))
        for node in graph_nodes:
            if node.op == "get_attr":
                value = attrgetter(str(node.target))(traced.graph.owning_module)
                self._enter(node, node.name, "constant", traced.modules[node], value)
            elif node.op == "call_function":
                self._call(node)
        leaving: Any = traced.graph.output_node().args[0]
        entering = [*traced.parameters, *range(traced.inputs)] if traced.tangents else []
        count = len(leaving) - len(entering)
        outputs = [
            self._leave(self._values[node], f"output_{i}", "output", "")
            for i, node in enumerate(leaving[:count])
        ]
        gradients = {
            of: self._leave(self._values[node], *self._named_gradient(of))
            for of, node in zip(entering, leaving[count:], strict=True)
            if node is not None
        }
        written = {
            name: self._leave(self._written[node], f"written {name}", "written", _module_of(name))
            for name, node in zip(traced.buffers, by_kind["buffer"], strict=True)
            if node in self._written
        }
        return Program(
            nodes=tuple(self._nodes),
            parameters=dict(zip(traced.parameters, by_kind["parameter"], strict=True)),
            buffers=dict(zip(traced.buffers, by_kind["buffer"], strict=True)),
            inputs=tuple(by_kind["input"]),
            outputs=tuple(outputs),
            tangents=tuple(
                (outputs[i], node)
                for i, node in zip(traced.tangents, by_kind["tangent"], strict=True)
            ),
            gradients={of: node for of, node in gradients.items() if isinstance(of, str)},
            input_gradients={of: node for of, node in gradients.items() if isinstance(of, int)},
            written=written,
            trained=frozenset(
                node
                for node, trained in zip(
                    [*by_kind["parameter"], *by_kind["input"]], traced.trained, strict=True
                )
                if trained
            ),
            call=traced.call,
        )

    @staticmethod
    def _named_gradient(of: str | int) -> tuple[str, str, str]:
        """Name, kind and module of the gradient of a parameter, or of an input."""
        if isinstance(of, int):
            return f"gradient of input_{of}", "gradient", ""
        return f"gradient of {of}", "gradient", _module_of(of)

    def _add(self, name: str, kind: str, module: str, **rest: Any) -> int:
        index = len(self._nodes)
        # A parameter may be called like an op of the graph, or like the first input.
        while name in self._names:
            name += "'"
        self._names.add(name)
        self._nodes.append(Node(index, name, kind, module, **rest))
        return index

    def _enter(self, node: fx.Node, name: str, kind: str, module: str, *value: object) -> int:
        index = self._add(
            name, kind, module, outputs=(_meta(node),), args=value, backward=kind == "tangent"
        )
        self._values[node] = Ref(index)
        return index

    def _leave(self, ref: Ref, name: str, kind: str, module: str) -> int:
        source = self._nodes[ref.node]
        return self._add(
            name,
            kind,
            module,
            outputs=(source.outputs[ref.output],),
            args=(ref,),
            backward=kind == "gradient",
        )

    def _call(self, node: fx.Node) -> None:
        op: Any = node.target
        args, kwargs = self._filled(node.args), self._filled(node.kwargs)
        if op is operator.getitem:
            values, place = args
            self._values[node] = values[place]
            return
        if op in TRANSPARENT:
            self._values[node] = args[0]
            return
        if not isinstance(op, OpOverload):
            self._values[node] = None  # of no tensors
            return
        if op is torch.ops.aten.copy.default and _meta(node) == self._meta_of(args[1]):
            self._values[node] = args[1]  # what a write of the whole is without a write
            return
        where = f" in {self._traced.modules[node]!r}" if self._traced.modules[node] else ""
        if op is torch.ops.aten.copy_.default and self._nodes[args[0].node].kind == "buffer":
            if self._nodes[args[1].node].backward:
                raise ShardpropError(
                    f"{self._nodes[args[0].node].name}: Expected a buffer that is written in the "
                    "forward, got one that is written in the backward, too: a checkpointed part "
                    "writes it twice. Leave that part out of the checkpoint."
                )
            self._written[args[0].node] = args[1]
            self._values[node] = args[1]
            return
        if function_schema(op).is_mutable:
            written = next((self._nodes[ref.node] for ref in refs(args)), None)
            raise ShardpropError(
                "Expected a model that writes into none of its inputs and parameters, got "
                f"one that writes into {written.kind if written else 'a tensor'} "
                f"{written.name if written else ''!r} ({op})."
            )
        value: Any = node.meta.get("val")
        if op is torch.ops.aten.empty_like.default:
            # Of its operand it takes the shape: what is drawn into it (dropout) waits for nothing.
            op, args = torch.ops.aten.empty_strided.default, ([*value.shape], [*value.stride()])
            kwargs = {"dtype": value.dtype, "device": value.device}
        listed = isinstance(value, (list, tuple)) or not function_schema(op).returns
        metas = tuple(map(meta_of, (value or ()) if listed else [value]))
        index = self._add(
            node.name,
            "op",
            self._traced.modules[node],
            outputs=metas,
            op=op,
            args=args,
            kwargs=kwargs,
            backward=node in self._traced.backward,
        )
        refs_out = tuple(Ref(index, i) for i in range(len(metas)))
        self._values[node] = refs_out if listed else refs_out[0]
        if self._nodes[index].backward and self._nodes[index].draws:
            raise ShardpropError(
                f"{op}{where}: Expected random numbers that are drawn in the forward, got some "
                "that are drawn in the backward: a checkpointed part draws again, and nothing says "
                "that it is to draw the same. Leave that part out of the checkpoint, and compile "
                "the plan with recompute=True."
            )

    def _meta_of(self, ref: Ref) -> TensorMeta | None:
        return self._nodes[ref.node].outputs[ref.output]

    def _filled(self, item: Any) -> Any:
        if isinstance(item, fx.Node):
            return self._values[item]
        if isinstance(item, dict):
            return {name: self._filled(part) for name, part in item.items()}
        if isinstance(item, (list, tuple)):
            parts = [self._filled(part) for part in item]
            return parts if isinstance(item, list) else tuple(parts)
        return item


def _module_of(name: str) -> str:
    return name.rpartition(".")[0]


def _meta(node: fx.Node) -> TensorMeta | None:
    return meta_of(node.meta.get("val"))
