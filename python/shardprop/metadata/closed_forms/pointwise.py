"""Elementwise ops, in all their overloads: new, in place, and over lists."""

from __future__ import annotations

from collections.abc import Iterator

from ..._core import Category, PointwiseFlag, Promotion
from .form import Form

__all__ = ["pointwise_forms"]


def _names(text: str) -> list[str]:
    return text.split()


_REAL = Category.BOOL | Category.INT | Category.FLOAT
_NUMBERS = Category.INT | Category.FLOAT
_WHOLE = Category.BOOL | Category.INT
_ANY = _REAL | Category.COMPLEX
_NO_FLAGS = PointwiseFlag(0)


def _form(
    broadcast: tuple[str, ...],
    promoted: tuple[str, ...] | None = None,
    promotion: Promotion = Promotion.DEFAULT,
    kinds: Category = _REAL,
    flags: PointwiseFlag = _NO_FLAGS,
    alpha: str | int = -1,
    lists: bool = False,
) -> Form:
    """An elementwise op.

    Args:
        broadcast: The arguments whose shapes broadcast; a number counts as a tensor of no dims.
        promoted: The arguments whose dtypes promote, if not the same.
        promotion: What becomes of the promoted dtype.
        kinds: The promoted dtypes that are answered.
        flags: What else is to be known.
        alpha: The argument that must not be of a higher kind than the result.
        lists: The op takes lists.
    """
    promoted = broadcast if promoted is None else promoted
    return Form(
        "pointwise",
        (int(promotion), broadcast, promoted, int(kinds), int(flags), alpha),
        each_element=lists,
        returns_nothing=lists and bool(flags & PointwiseFlag.IN_PLACE),
    )


_UNARY: dict[str, tuple[Promotion, Category]] = {
    **dict.fromkeys(
        _names(
            "acos acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 "
            "lgamma log log10 log1p log2 reciprocal rsqrt sigmoid sin sinh sqrt tan tanh"
        ),
        (Promotion.INT_TO_FLOAT, _REAL),
    ),
    **dict.fromkeys(_names("abs"), (Promotion.DEFAULT, _REAL)),
    **dict.fromkeys(_names("neg"), (Promotion.DEFAULT, _NUMBERS)),
    **dict.fromkeys(_names("ceil floor round sgn sign trunc"), (Promotion.DEFAULT, _NUMBERS)),
    **dict.fromkeys(_names("relu"), (Promotion.DEFAULT, _NUMBERS)),
    **dict.fromkeys(_names("frac"), (Promotion.DEFAULT, Category.FLOAT)),
    **dict.fromkeys(
        _names("elu gelu hardsigmoid hardswish hardtanh leaky_relu mish silu softplus"),
        (Promotion.DEFAULT, Category.FLOAT),
    ),
    "bitwise_not": (Promotion.DEFAULT, _WHOLE),
    **dict.fromkeys(_names("isnan logical_not signbit"), (Promotion.TO_BOOL, _REAL)),
}

_DECOMPOSED = frozenset({"floor_divide"})

_BINARY: dict[str, tuple[Promotion, Category]] = {
    "add": (Promotion.DEFAULT, _ANY),
    "mul": (Promotion.DEFAULT, _ANY),
    "sub": (Promotion.DEFAULT, _NUMBERS),
    "div": (Promotion.INT_TO_FLOAT, _ANY),
    "pow": (Promotion.DEFAULT, _NUMBERS),
    **dict.fromkeys(_names("fmod remainder floor_divide"), (Promotion.DEFAULT, _NUMBERS)),
    **dict.fromkeys(_names("atan2"), (Promotion.INT_TO_FLOAT, _REAL)),
    **dict.fromkeys(_names("maximum minimum fmax fmin"), (Promotion.DEFAULT, _REAL)),
    **dict.fromkeys(
        _names("bitwise_and bitwise_or bitwise_xor"),
        (Promotion.DEFAULT, _WHOLE),
    ),
    **dict.fromkeys(_names("eq ne"), (Promotion.TO_BOOL, _ANY)),
    **dict.fromkeys(_names("ge gt le lt"), (Promotion.TO_BOOL, _REAL)),
    **dict.fromkeys(_names("logical_and logical_or logical_xor"), (Promotion.TO_BOOL, _REAL)),
}

# Overloads whose number does not broadcast as a tensor would: they are unary ops.
_NUMBER_ASIDE = frozenset({"pow"})
_HAS_ALPHA = frozenset({"add", "sub"})
# TorchScript's own overloads, of numbers.
_DEFAULT_IS_OF_NUMBERS = frozenset(_names("add div eq fmod ge gt le lt mul ne remainder sub"))


def _unary() -> Iterator[tuple[str, Form]]:
    for name, (promotion, kinds) in _UNARY.items():
        for suffix, flags in (("", _NO_FLAGS), ("_", PointwiseFlag.IN_PLACE)):
            yield f"{name}{suffix}", _form(("self",), None, promotion, kinds, flags)
            yield (
                f"_foreach_{name}{suffix}",
                _form(("self",), None, promotion, kinds & ~Category.BOOL, flags, lists=True),
            )


def _binary() -> Iterator[tuple[str, Form]]:
    both = ("self", "other")
    for name, (promotion, kinds) in _BINARY.items():
        alpha = "alpha" if name in _HAS_ALPHA else -1
        number = "exponent" if name == "pow" else "other"
        pair = ("self", number)
        number_shape = ("self",) if name in _NUMBER_ASIDE else pair
        alike = PointwiseFlag.UNIFORM if name in _DECOMPOSED else _NO_FLAGS
        for suffix, flags in (("", alike), ("_", alike | PointwiseFlag.IN_PLACE)):
            if name == "pow":
                yield f"pow{suffix}.Tensor_Tensor", _form(pair, None, promotion, kinds, flags)
                yield f"pow{suffix}.Tensor_Scalar", _form(("self",), pair, promotion, kinds, flags)
                yield f"pow{suffix}.Tensor", _form(pair, None, promotion, kinds, flags)
                base = ("exponent",) if suffix == "" else ("self",)
                yield f"pow{suffix}.Scalar", _form(base, pair, promotion, kinds, flags)
            else:
                tensor = _form(both, None, promotion, kinds, flags, alpha)
                yield f"{name}{suffix}.Tensor", tensor
                if name not in _DEFAULT_IS_OF_NUMBERS:
                    yield f"{name}{suffix}", tensor
                yield (
                    f"{name}{suffix}.Scalar",
                    _form(number_shape, pair, promotion, kinds, flags, alpha),
                )
            yield from _lists(name, suffix, promotion, kinds, flags)


def _lists(
    name: str, suffix: str, promotion: Promotion, kinds: Category, flags: PointwiseFlag
) -> Iterator[tuple[str, Form]]:
    other = "exponent" if name == "pow" else "other"
    alpha = "alpha" if name in _HAS_ALPHA else -1
    kinds = kinds & (_NUMBERS | Category.COMPLEX)
    packet = f"_foreach_{name}{suffix}"
    pair = ("self", other)
    yield f"{packet}.List", _form(pair, None, promotion, kinds, flags, alpha, lists=True)
    no_dims = flags | PointwiseFlag.NO_DIMS
    yield f"{packet}.Tensor", _form(pair, None, promotion, kinds, no_dims, alpha, lists=True)
    if name == "pow":
        yield f"{packet}.Scalar", _form(("self",), pair, promotion, kinds, flags, lists=True)
        scalars = ("self", "exponent")
        yield f"{packet}.ScalarList", _form(("self",), scalars, promotion, kinds, flags, lists=True)
    else:
        if name in ("maximum", "minimum"):  # these clamp
            kinds = Category.FLOAT
        for overload, number in (("Scalar", "scalar"), ("ScalarList", "scalars")):
            numbers = ("self", number)
            promoted = ("self",) if name in ("maximum", "minimum") else numbers
            yield (
                f"{packet}.{overload}",
                _form(numbers, promoted, promotion, kinds, flags, lists=True),
            )


def _others() -> Iterator[tuple[str, Form]]:
    rounded = Promotion.INT_TO_FLOAT_UNLESS_ROUNDED
    both = ("self", "other")
    for suffix, flags in (("", _NO_FLAGS), ("_", PointwiseFlag.IN_PLACE)):
        alike = flags | PointwiseFlag.UNIFORM
        yield f"div{suffix}.Tensor_mode", _form(both, None, rounded, _NUMBERS, alike)
        yield f"div{suffix}.Scalar_mode", _form(both, None, rounded, _NUMBERS, alike)
        limits = ("self", "min", "max")
        limited = flags | PointwiseFlag.LIMITED
        # torch 2.15 refuses limits that a whole dtype cannot hold.
        own = ("self",)
        yield f"clamp{suffix}", _form(own, own, kinds=Category.FLOAT, flags=limited)
        yield f"clamp{suffix}.Tensor", _form(limits, None, kinds=_NUMBERS, flags=limited)
        for limit in ("min", "max"):
            pair = ("self", limit)
            yield f"clamp_{limit}{suffix}", _form(own, own, kinds=Category.FLOAT, flags=flags)
            tensor = _form(pair, None, kinds=_NUMBERS, flags=flags)
            yield f"clamp_{limit}{suffix}.Tensor", tensor
            packet = f"_foreach_clamp_{limit}{suffix}"
            yield f"{packet}.List", _form(both, flags=flags, kinds=_NUMBERS, lists=True)
            yield (
                f"{packet}.Scalar",
                _form(own, own, flags=flags, kinds=Category.FLOAT, lists=True),
            )
        three = ("self", "tensor1", "tensor2")
        strict = flags | PointwiseFlag.SAME_DTYPE
        for name in ("addcmul", "addcdiv"):
            float_only = Category.FLOAT
            uniform = flags | PointwiseFlag.SAME_DTYPE | PointwiseFlag.UNIFORM
            yield f"{name}{suffix}", _form(three, None, kinds=float_only, flags=uniform)
            packet = f"_foreach_{name}{suffix}"
            yield (
                f"{packet}.Scalar",
                _form(three, None, kinds=float_only, flags=uniform, lists=True),
            )
            yield (
                f"{packet}.ScalarList",
                _form(three, None, kinds=float_only, flags=uniform, lists=True),
            )
        ends = ("self", "end")
        yield f"lerp{suffix}.Scalar", _form(ends, None, kinds=Category.FLOAT, flags=strict)
        yield (
            f"lerp{suffix}.Tensor",
            _form((*ends, "weight"), None, kinds=Category.FLOAT, flags=strict),
        )
        list_ends = ("self", "tensors1")
        yield (
            f"_foreach_lerp{suffix}.Scalar",
            _form(list_ends, None, kinds=Category.FLOAT, flags=strict, lists=True),
        )
        mask = ("self", "mask")
        masked = flags | PointwiseFlag.BOOL_SECOND | PointwiseFlag.ROW_MAJOR
        yield f"masked_fill{suffix}.Scalar", _form(mask, ("self",), kinds=_REAL, flags=masked)
    yield "rsub.Scalar", _form(both, None, kinds=_NUMBERS, alpha="alpha")
    backwards = PointwiseFlag.BACKWARDS
    yield "rsub.Tensor", _form(both, None, kinds=_NUMBERS, flags=backwards, alpha="alpha")
    yield (
        "where.self",
        _form(("condition", "self", "other"), both, kinds=_ANY, flags=PointwiseFlag.BOOL_FIRST),
    )
    in_place = PointwiseFlag.IN_PLACE | PointwiseFlag.ANY_CAST
    yield "copy_", _form(("self", "src"), kinds=_ANY, flags=in_place)
    yield "_foreach_copy_", _form(("self", "src"), kinds=_ANY, flags=in_place, lists=True)
    yield "_foreach_zero_", _form(("self",), kinds=_ANY, flags=in_place, lists=True)


# Put together by torch from other ops: alike operands, whose strides every step keeps.
_BACKWARD = {
    "elu_backward": ("grad_output", "self_or_result"),
    "gelu_backward": ("grad_output", "self"),
    "hardsigmoid_backward": ("grad_output", "self"),
    "hardswish_backward": ("grad_output", "self"),
    "hardtanh_backward": ("grad_output", "self"),
    "leaky_relu_backward": ("grad_output", "self"),
    "mish_backward": ("grad_output", "self"),
    "sigmoid_backward": ("grad_output", "output"),
    "silu_backward": ("grad_output", "self"),
    "softplus_backward": ("grad_output", "self"),
    "tanh_backward": ("grad_output", "output"),
    "threshold_backward": ("grad_output", "self"),
}


def _backward() -> Iterator[tuple[str, Form]]:
    flags = PointwiseFlag.UNIFORM | PointwiseFlag.SAME_DTYPE
    for name, operands in _BACKWARD.items():
        yield name, _form(operands, None, kinds=Category.FLOAT, flags=flags)
    dropout = ("grad_output", "mask")
    flags = PointwiseFlag.ROW_MAJOR  # its result has the format that the gradient looks to be of
    yield "native_dropout_backward", _form(dropout, dropout[:1], kinds=Category.FLOAT, flags=flags)


def pointwise_forms() -> Iterator[tuple[str, Form]]:
    """Names of aten ops, with overloads, and their forms; some are of one torch version only."""
    yield from _unary()
    yield from _binary()
    yield from _others()
    yield from _backward()
