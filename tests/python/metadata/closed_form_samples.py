"""Random calls of the ops that have a closed form: many layouts, shapes, dtypes and numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

aten = torch.ops.aten

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
WHOLES = [torch.int64, torch.int32, torch.uint8, torch.int8]
DTYPES = [*FLOATS, *FLOATS, *WHOLES, torch.bool, torch.complex64]
NUMBERS = [2, 2.5, True, -1, 0, 1, 0.5]

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Sampler:
    """Makes calls from a seed, on one mesh."""

    def __init__(self, mesh: DeviceMesh, seed: int) -> None:
        self.mesh = mesh
        self.rng = random.Random(seed)

    # --- tensors

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def shape(self, low: int = 0, high: int = 5) -> list[int]:
        return [self.rng.choice([1, 2, 3, 4, 4, 6, 8]) for _ in range(self.rng.randint(low, high))]

    def odd_shape(self, low: int = 0, high: int = 5) -> list[int]:
        """Now and then without elements."""
        shape = self.shape(low, high)
        if shape and self.chance(0.08):
            shape[self.rng.randrange(len(shape))] = 0
        return shape

    def stride(self, shape: list[int]) -> list[int]:
        """Row-major, permuted, channels last, with gaps, expanded, odd where a size is 1."""
        order = list(range(len(shape)))
        kind = self.rng.choice(
            ["plain"] * 3 + ["permuted", "last", "gaps", "expanded", "zeros", "odd"]
        )
        if kind in ("permuted", "gaps"):
            self.rng.shuffle(order)
        if kind == "last" and len(shape) in (4, 5):
            order = [0, *range(2, len(shape)), 1]
        if kind == "zeros":
            return [0] * len(shape)
        stride = [1] * len(shape)
        step = 1
        for d in reversed(order):
            if kind == "gaps" and self.chance(0.5):
                step *= 2
            stride[d] = step
            step *= max(shape[d], 1)
        for d, size in enumerate(shape):
            if kind == "expanded" and self.chance(0.4):
                stride[d] = 0
            if kind == "odd" and size == 1:
                stride[d] = self.rng.choice([0, 1, 3, 7, 100])
        return stride

    def spec(
        self, shape: list[int], dtype: torch.dtype, stride: list[int] | None = None
    ) -> DTensorSpec:
        stride = self.stride(shape) if stride is None else stride
        meta = TensorMeta(torch.Size(shape), tuple(stride), dtype)
        return DTensorSpec(self.mesh, (Replicate(),) * self.mesh.ndim, tensor_meta=meta)

    def plain(self, shape: list[int], dtype: torch.dtype) -> DTensorSpec:
        return self.spec(shape, dtype, list(torch.empty(shape, device="meta").stride()))

    def mostly_plain(self, shape: list[int], dtype: torch.dtype) -> DTensorSpec:
        return self.plain(shape, dtype) if self.chance(0.7) else self.spec(shape, dtype)

    def dtype(self, usual: list[torch.dtype] = FLOATS) -> torch.dtype:
        return self.rng.choice(usual if self.chance(0.6) else DTYPES)

    def dim(self, shape: list[int]) -> int:
        """Mostly within range."""
        reach = max(len(shape), 1)
        return self.rng.randint(-reach - (self.chance(0.03)), reach - 1 + (self.chance(0.03)))

    def dims(self, shape: list[int]) -> list[int]:
        dims = [self.dim(shape) for _ in range(self.rng.randint(0, 2))]
        if self.chance(0.3):
            return list(range(len(shape)))
        return dims

    # --- elementwise ops, from the schema alone

    def elementwise(self, op: Any) -> Call:
        whole = self.odd_shape()
        stride = self.stride(whole)
        dtype = self.dtype()
        length = self.rng.randint(1, 3)
        regular = self.chance(0.3)
        takes_numbers = torch._C._should_allow_numbers_as_tensors(
            op._schema.name.rpartition("::")[2]
        )

        def tensor(name: str) -> Any:
            own = dtype if regular or self.chance(0.75) else self.rng.choice(DTYPES)
            if name in ("mask", "condition") and self.chance(0.95):
                own = torch.bool
            if name not in ("self", "grad_output") and takes_numbers and self.chance(0.2):
                return self.rng.choice(NUMBERS)
            if regular or self.chance(0.5):
                return self.spec(whole, own, stride)
            if self.chance(0.5) or (op._schema.is_mutable and name == "self"):
                return self.spec(whole, own)
            shape = whole[self.rng.randint(0, len(whole)) :]
            return self.spec([1 if self.chance(0.3) else size for size in shape], own)

        def value(name: str, kind: str) -> Any:
            if kind.startswith("Optional"):
                if self.chance(0.4):
                    return None
                kind = kind.removeprefix("Optional[").removesuffix("]")
            if kind == "Tensor":
                return tensor(name)
            if kind == "List[Tensor]":
                return [tensor(name) for _ in range(length)]
            if kind == "List[number]":
                return [self.rng.choice(NUMBERS) for _ in range(length)]
            if kind == "number":
                return self.rng.choice(NUMBERS)
            if kind == "float":
                return 0.5
            if kind == "bool":
                return self.chance(0.5)
            if kind == "int":
                return self.rng.randint(0, 2)
            if kind == "str":
                words = ["trunc", "floor"] if name == "rounding_mode" else ["none", "tanh", "odd"]
                return self.rng.choice(words)
            return None

        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in op._schema.arguments:
            if argument.has_default_value() and self.chance(0.5):
                if argument.kwarg_only:
                    continue
                break
            made = value(argument.name, str(argument.real_type))
            if argument.kwarg_only:
                kwargs[argument.name] = made
            elif len(kwargs) == 0:
                args.append(made)
        for argument in op._schema.arguments[len(args) :]:
            if not argument.has_default_value() and argument.name not in kwargs:
                kwargs[argument.name] = value(argument.name, str(argument.real_type))
        return tuple(args), kwargs

    # --- the others, by the name of their family

    def other(self, family: str, name: str) -> Call:
        made = _MAKERS[family](self, name)
        return made if isinstance(made[1], dict) else (made, {})


def _with_dtype(s: Sampler) -> dict[str, Any]:
    return {"dtype": s.dtype()} if s.chance(0.4) else {}


def _format(s: Sampler) -> dict[str, Any]:
    formats = [
        torch.contiguous_format,
        torch.preserve_format,
        torch.channels_last,
        torch.channels_last_3d,
        None,
    ]
    return {"memory_format": s.rng.choice(formats)} if s.chance(0.5) else {}


def _same(s: Sampler, name: str) -> Call:
    spec = s.spec(s.odd_shape(), s.dtype())
    if name == "fill_":
        return (spec, s.rng.choice(NUMBERS)), {}
    return (spec,), {}


def _like(s: Sampler, name: str) -> Call:
    args: tuple[Any, ...] = (s.spec(s.odd_shape(), s.dtype()),)
    if name == "bernoulli":
        return args, {}
    if name == "full_like":
        args = (*args, s.rng.choice(NUMBERS))
    extra = {"pin_memory": False, "device": torch.device("cpu")} if s.chance(0.3) else {}
    return args, {**_with_dtype(s), **_format(s), **extra}


def _new(s: Sampler, name: str) -> Call:
    args: tuple[Any, ...] = (s.spec(s.odd_shape(), s.dtype()), s.odd_shape())
    if name == "new_full":
        args = (*args, s.rng.choice(NUMBERS))
    return args, _with_dtype(s)


def _new_strided(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    return (s.spec(s.shape(), s.dtype()), shape, s.stride(shape)), _with_dtype(s)


def _to_copy(s: Sampler, name: str) -> Call:
    extra = {"device": torch.device("cpu"), "non_blocking": True} if s.chance(0.2) else {}
    return (s.spec(s.odd_shape(), s.dtype()),), {**_with_dtype(s), **_format(s), **extra}


def _clone(s: Sampler, name: str) -> Call:
    return (s.spec(s.odd_shape(), s.dtype()),), _format(s)


def _dropout(s: Sampler, name: str) -> Call:
    p, train = s.rng.choice([0.5, 0.0, 1.0]), s.rng.choice([True, False, None])
    return (s.spec(s.odd_shape(), s.dtype()), p, train), {}


def _nothing(s: Sampler, name: str) -> Call:
    lists = 5 if "adam" in name else 3
    tensors = [[s.plain([4], torch.float32)] for _ in range(lists)]
    if "adam" in name:
        steps = [s.plain([], torch.float32)]
        rates = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
        return (*tensors, steps), {**rates, "amsgrad": False, "maximize": False}
    rates = {"weight_decay": 0.0, "momentum": 0.9, "lr": 0.1, "dampening": 0.0}
    flags = {"nesterov": False, "maximize": False, "is_first_step": True}
    return tuple(tensors), {**rates, **flags}


def _product(s: Sampler, name: str) -> Call:
    m, k, n, b = (s.rng.choice([1, 2, 3, 4, 0, 5]) for _ in range(4))
    dtype = s.dtype()
    other = dtype if s.chance(0.9) else s.dtype()
    if s.chance(0.05):
        b, k = b + 1, k + 1
    if name in ("mm", "addmm"):
        pair = [s.spec([m, k], dtype), s.spec([k, n], other)]
    elif name in ("bmm", "baddbmm"):
        pair = [s.spec([b, m, k], dtype), s.spec([b, k, n], other)]
    elif name == "mv":
        pair = [s.spec([m, k], dtype), s.spec([k], other)]
    else:
        pair = [s.spec([k], dtype), s.spec([k], other)]
    if name not in ("addmm", "baddbmm"):
        return tuple(pair), {}
    out = [b, m, n][name == "addmm" :]
    out = [1 if s.chance(0.15) else size for size in out[s.rng.randint(0, 3) % len(out) :]]
    factors = {"beta": s.rng.choice(NUMBERS), "alpha": s.rng.choice(NUMBERS)}
    return (s.spec(out, dtype), *pair), factors if s.chance(0.5) else {}


def _view(s: Sampler, name: str) -> Call:
    shape = s.odd_shape(0, 4)
    primes: list[int] = []
    for size in shape:
        while size > 1 and size % 2 == 0:
            primes.append(2)
            size //= 2
        primes.append(size)
    if s.chance(0.2):
        s.rng.shuffle(primes)
    wanted: list[int] = []
    for prime in primes:
        if wanted and s.chance(0.5):
            wanted[-1] *= prime
        else:
            wanted.append(prime)
    for _ in range(s.rng.randint(0, 2)):
        wanted.insert(s.rng.randint(0, len(wanted)), 1)
    if wanted and s.chance(0.4):
        wanted[s.rng.randrange(len(wanted))] = -1
    if s.chance(0.05):
        wanted = [*wanted, 2]
    return (s.spec(shape, s.dtype()), wanted), {}


def _one_dim(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    spec = s.spec(shape, s.dtype())
    if name == "transpose":
        return (spec, s.dim(shape), s.dim(shape)), {}
    if name == "unbind" and s.chance(0.3):
        return (spec,), {}
    if name == "unsqueeze":
        return (spec, s.dim([*shape, 1])), {}
    return (spec, s.dim(shape)), {}


def _t(s: Sampler, name: str) -> Call:
    return (s.spec(s.odd_shape(0, 3), s.dtype()),), {}


def _permute(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    order = list(range(len(shape)))
    s.rng.shuffle(order)
    if order and s.chance(0.3):
        order[0] -= len(shape)
    if order and s.chance(0.05):
        order[0] = order[-1]
    return (s.spec(shape, s.dtype()), order), {}


def _squeeze(s: Sampler, name: str) -> Call:
    overload = name.partition(".")[2]
    shape = s.odd_shape()
    spec = s.spec(shape, s.dtype())
    if overload == "":
        return (spec,), {}
    return (spec, s.dims(shape) if overload == "dims" else s.dim(shape)), {}


def _expand(s: Sampler, name: str) -> Call:
    shape = s.odd_shape(0, 4)
    wanted = [3 if size == 1 and s.chance(0.7) else size for size in shape]
    wanted = [-1 if s.chance(0.2) else size for size in wanted]
    wanted = s.shape(0, 2) + wanted
    if wanted and s.chance(0.05):
        wanted[0] = 5
    return (s.spec(shape, s.dtype()), wanted), {}


def _select(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    return (s.spec(shape, s.dtype()), s.dim(shape), s.rng.randint(-5, 4)), {}


def _slice(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    ends = [None, 0, 1, 3, -1, -2, 100, -100, 2**63 - 1]
    args = (s.spec(shape, s.dtype()), s.dim(shape), s.rng.choice(ends), s.rng.choice(ends))
    return (*args, s.rng.choice([1, 1, 2, 3, 0, 50]))[: s.rng.randint(1, 5)], {}


def _split(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    if name == "split":
        return (s.spec(shape, s.dtype()), s.rng.randint(0, 5), s.dim(shape)), {}
    d = s.dim(shape)
    size = shape[d] if -len(shape) <= d < len(shape) else 1
    first = s.rng.randint(0, size)
    return (s.spec(shape, s.dtype()), [first, size - first + s.chance(0.05)], d), {}


def _reduce(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    own = s.spec(shape, s.dtype())
    packet, _, overload = name.partition(".")
    keep = (s.chance(0.5),) if s.chance(0.5) else ()
    dtype = _with_dtype(s) if packet in ("sum", "prod", "mean", "linalg_vector_norm") else {}
    if packet == "_foreach_norm":
        order = (s.rng.choice([1, 2, float("inf")]),)[: s.chance(0.5)]
        return ([own, s.spec(s.odd_shape(), s.dtype())], *order), dtype
    if packet in ("var", "std"):
        named = {"correction": s.rng.choice([0, 1, None]), "keepdim": s.chance(0.5)}
        return (own, s.rng.choice([None, s.dims(shape)])), named
    if packet == "linalg_vector_norm":
        power: float | None = s.rng.choice([2, 1.0, float("inf"), 0])
        return (own, power, s.rng.choice([None, s.dims(shape)]), s.chance(0.5)), dtype
    if packet == "norm":
        power = s.rng.choice([2, 1.0, None]) if overload else 2
        return ((own, power, s.dims(shape), s.chance(0.5)) if overload else (own, 2)), {}
    if packet in ("argmax", "argmin"):
        return (own, s.rng.choice([None, s.dim(shape)]), s.chance(0.5)), {}
    if overload in ("dim_int", "dim") and packet != "mean":
        return (own, s.dim(shape), *keep), dtype
    if overload in ("dim_IntList", "dims", "dim") or packet in ("amax", "amin", "logsumexp"):
        return (own, s.dims(shape), *keep), dtype
    return (own,), dtype


def _scan(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    return (s.spec(shape, s.dtype()), s.dim(shape)), _with_dtype(s)


def _cat(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    dtype, d, stride = s.dtype(), s.dim(shape), s.stride(shape)
    same = s.chance(0.5)
    specs = []
    for _ in range(s.rng.randint(1, 4)):
        own = list(shape)
        if name == "cat" and s.chance(0.4) and -len(own) <= d < len(own):
            own[d] = s.rng.randint(0, 5)
        kind = dtype if s.chance(0.9) else s.dtype()
        specs.append(s.spec(own, kind, stride if same and own == shape else None))
    if name == "stack":
        d = s.dim([*shape, 1])
    return ((specs, d) if s.chance(0.8) else (specs,)), {}


def _embedding(s: Sampler, name: str) -> Call:
    index = s.spec(s.odd_shape(0, 3), s.rng.choice([torch.int64, torch.int32, torch.int64]))
    args = (s.spec([7, 4], s.dtype()), index)
    return s.rng.choice([args, (*args, 1), (*args, -1, False, False)]), {}


def _embedding_backward(s: Sampler, name: str) -> Call:
    shape = s.odd_shape(0, 3)
    return (s.spec([*shape, 4], s.dtype()), s.spec(shape, torch.int64), 7, -1, False), {}


def _index_select(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    index = s.spec(s.odd_shape(0, 1), s.dtype([torch.int64]))
    return (s.spec(shape, s.dtype()), s.dim(shape), index), {}


def _gather(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    index = [s.rng.randint(1, max(size, 1)) for size in shape]
    dtype = s.dtype()
    args = (s.spec(shape, dtype), s.dim(shape), s.spec(index, s.dtype([torch.int64])))
    if name == "gather":
        return args, {}
    if name.endswith("value"):
        return (*args, s.rng.choice(NUMBERS)), {}
    return (*args, s.spec(shape, dtype if s.chance(0.9) else s.dtype())), {}


def _top_k(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    return (s.spec(shape, s.dtype()), s.rng.randint(0, 3), s.dim(shape)), {}


def _sort(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    if name.endswith("stable"):
        return (s.spec(shape, s.dtype()),), {"stable": True, "dim": s.dim(shape)}
    return (s.spec(shape, s.dtype()), s.dim(shape)), {}


def _softmax(s: Sampler, name: str) -> Call:
    shape = s.odd_shape()
    return (s.mostly_plain(shape, s.dtype()), s.dim(shape), s.chance(0.2)), {}


def _softmax_backward(s: Sampler, name: str) -> Call:
    shape, dtype = s.odd_shape(), s.dtype()
    pair = s.mostly_plain(shape, dtype), s.mostly_plain(shape, dtype)
    return (*pair, s.dim(shape), dtype if s.chance(0.8) else s.dtype()), {}


def _norm(s: Sampler, name: str) -> Call:
    outer, tail, dtype = s.odd_shape(0, 3), s.shape(1, 2), s.dtype()
    weight_dtype = dtype if s.chance(0.9) else s.dtype()
    whole = s.mostly_plain([*outer, *tail], dtype)
    weight = s.mostly_plain(tail, weight_dtype) if s.chance(0.7) else None
    bias = s.mostly_plain(tail, weight_dtype) if s.chance(0.7) else None
    stats_dtype = torch.float32 if s.chance(0.5) and dtype.itemsize < 4 else dtype
    stats = s.plain([*outer, *[1] * len(tail)], stats_dtype)
    mask = [s.chance(0.7) for _ in range(3)]
    if name == "native_layer_norm":
        return (whole, tail, weight, bias, 1e-5), {}
    if name == "_fused_rms_norm":
        return (whole, tail, weight, s.rng.choice([1e-5, None])), {}
    if name == "_fused_rms_norm_backward":
        return (s.plain([*outer, *tail], dtype), whole, tail, stats, weight, mask[:2]), {}
    grad = s.plain([*outer, *tail], dtype)
    return (grad, whole, tail, stats, stats, weight, bias, mask), {}


def _group_norm(s: Sampler, name: str) -> Call:
    n, c, area = s.rng.randint(0, 3), 4, s.shape(1, 2)
    dtype = s.dtype()
    elements = 1
    for size in area:
        elements *= size
    weight = s.plain([c], dtype) if s.chance(0.6) else None
    groups = s.rng.choice([1, 2, 4, 3])
    input = s.mostly_plain([n, c, *area], dtype)
    return (input, weight, weight, n, c, elements, groups, 1e-5), {}


def _nll(s: Sampler, name: str) -> Call:
    n, c, dtype = s.rng.randint(0, 4), 5, s.dtype()
    input, target = s.mostly_plain([n, c], dtype), s.plain([n], torch.int64)
    weight = s.plain([c], dtype) if s.chance(0.3) else None
    reduction = s.rng.randint(0, 2)
    if name == "nll_loss_forward":
        return (input, target, weight, reduction, -100), {}
    grad = s.plain([n] if reduction == 0 else [], dtype)
    return (grad, input, target, weight, reduction, -100, s.plain([], dtype)), {}


def _repeat(s: Sampler, name: str) -> Call:
    shape = s.odd_shape(0, 3)
    times = [s.rng.randint(0, 3) for _ in range(len(shape) + s.rng.randint(-1, 2))]
    return (s.spec(shape, s.dtype()), times), {}


def _slice_backward(s: Sampler, name: str) -> Call:
    shape = s.odd_shape(1)
    d, dtype = s.rng.randrange(len(shape)), s.dtype()
    start, step = s.rng.randint(0, 2), s.rng.randint(1, 3)
    end = s.rng.choice([shape[d], 2**63 - 1, -1])
    sliced = torch.empty(shape, device="meta")
    sliced = aten.slice.Tensor(sliced, d, start, end, step)
    own = list(sliced.shape)
    if s.chance(0.1):
        own[d] += 1
    return (s.spec(own, dtype), shape, d, start, end, step), {}


def _select_backward(s: Sampler, name: str) -> Call:
    shape = s.odd_shape(1)
    d = s.rng.randrange(len(shape))
    own = shape[:d] + shape[d + 1 :]
    return (s.spec(own, s.dtype()), shape, d - len(shape) * s.chance(0.3), s.rng.randint(-2, 2)), {}


def _attention(s: Sampler, name: str) -> Call:
    batch, heads, rows, columns, width = (s.rng.randint(1, 5) for _ in range(5))
    dtype = s.dtype()

    def operand(length: int) -> DTensorSpec:
        if s.chance(0.6):  # as a transposition of heads and length leaves them
            return s.spec(
                [batch, heads, length, width],
                dtype,
                [length * heads * width, width, heads * width, 1],
            )
        return s.spec([batch, heads, length, width], dtype)

    q, k, v = operand(rows), operand(columns), operand(columns)
    if not name.endswith("backward"):
        if "efficient" in name:
            bias = s.spec([batch, heads, rows, columns], dtype) if s.chance(0.3) else None
            return (q, k, v, bias, s.chance(0.5)), {"scale": 0.5} if s.chance(0.5) else {}
        return (q, k, v, 0.0, True), {"scale": 0.5} if s.chance(0.5) else {}
    sums = s.plain([batch, heads, rows], torch.float32)
    seed = s.plain([], torch.int64)
    if "efficient" in name:
        return (q, q, k, v, None, q, sums, seed, seed, 0.0, [True, True, True, False]), {}
    if "cpu" in name:
        return (q, q, k, v, q, sums, 0.0, True), {}
    return (q, q, k, v, q, sums, None, None, rows, columns, 0.0, True, seed, seed), {}


_MAKERS: dict[str, Callable[[Sampler, str], Call]] = {
    **dict.fromkeys(("addmm", "baddbmm", "bmm", "dot", "mm", "mv"), _product),
    **dict.fromkeys(("cat", "stack"), _cat),
    **dict.fromkeys(("gather", "scatter"), _gather),
    **dict.fromkeys(("layer_norm", "layer_norm_backward"), _norm),
    **dict.fromkeys(("nll_loss", "nll_loss_backward"), _nll),
    **dict.fromkeys(("reduce", "reduce_pair"), _reduce),
    **dict.fromkeys(("rms_norm", "rms_norm_backward"), _norm),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    **dict.fromkeys(("transpose", "unbind", "unsqueeze"), _one_dim),
    **dict.fromkeys(
        (
            "cpu_attention",
            "efficient_attention",
            "flash_attention",
            "flash_attention_backward",
            "heads_inside_backward",
        ),
        _attention,
    ),
    "clone": _clone,
    "dropout": _dropout,
    "embedding": _embedding,
    "embedding_backward": _embedding_backward,
    "expand": _expand,
    "group_norm": _group_norm,
    "index_select": _index_select,
    "like": _like,
    "new_of_sizes": _new,
    "new_strided": _new_strided,
    "nothing": _nothing,
    "permute": _permute,
    "repeat": _repeat,
    "same": _same,
    "scan": _scan,
    "select": _select,
    "select_backward": _select_backward,
    "slice": _slice,
    "slice_backward": _slice_backward,
    "softmax": _softmax,
    "softmax_backward": _softmax_backward,
    "sort": _sort,
    "squeeze": _squeeze,
    "t": _t,
    "to_copy": _to_copy,
    "top_k": _top_k,
    "view": _view,
}
