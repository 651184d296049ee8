"""Written calls of what the layers of a network come down to, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from .values import Arguments, Table, Values, given

__all__ = ["LAYERS"]

_ALL = [True, True, True]


# --- normalization -----------------------------------------------------------------------------


# The sizes leave no rank of two, three or four without elements: some of the kernels divide by how
# many there are, and end the process.
_IMAGE = (6, 12, 6)
_CHANNELS = 12


def _channels(v: Values) -> tuple[torch.Tensor, ...]:
    """Weight and bias of the channels, and their running mean and variance."""
    return v(_CHANNELS), v(_CHANNELS), v(_CHANNELS), v.positive(_CHANNELS)


def _batch_norm(*rest: Any) -> Callable[[Values], Iterator[Arguments]]:
    """Of matrices and of images, with these arguments behind the operands."""

    def calls(v: Values) -> Iterator[Arguments]:
        yield given(v(6, _CHANNELS), *_channels(v), *rest, 0.1, 1e-5)
        yield given(v(*_IMAGE, 6), *_channels(v), *rest, 0.1, 1e-5)

    return calls


def _batch_norm_by_index(v: Values) -> Iterator[Arguments]:
    """In training without running statistics: it would write them, which its schema hides."""
    weight, bias, *running = _channels(v)
    yield given(v(*_IMAGE), weight, bias, *running, False, 0.1, 1e-5, False)
    yield given(v(*_IMAGE), weight, bias, None, None, True, 0.1, 1e-5, False)


def _batch_norm_backward_by_index(v: Values) -> Iterator[Arguments]:
    """Of torch's own kernels, whose index is 0."""
    weight, _, *running = _channels(v)
    saved, reserved = (v(_CHANNELS), v.positive(_CHANNELS)), torch.empty(0, dtype=torch.uint8)
    for train in (True, False):
        operands = (v(*_IMAGE), v(*_IMAGE), weight, *running, *saved)
        yield given(0, *operands, train, 1e-5, _ALL, reserved)


def _weight_norm(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 12), v.positive(6, 1), 0)
    yield given(v(6, 12), v.positive(1, 12), 1)
    yield given(v(12, 6, 6), v.positive(12, 1, 1), 0)


def _weight_norm_backward(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 12), v(6, 12), v.positive(6, 1), v.positive(6, 1), 0)
    yield given(v(6, 12), v(6, 12), v.positive(1, 12), v.positive(1, 12), 1)


# --- recurrent networks ------------------------------------------------------------------------

# Inputs of 4 features, hidden states of 6, in batches of 4.
_FEATURES, _HIDDEN, _BATCH = 4, 6, 4
# Sequences of 3, 3, 2 and 1 steps, packed: how many have each step.
_PACKED = (4, 3, 2)


def _weights(v: Values, gates: int) -> list[torch.Tensor]:
    """Of input and hidden state, and the biases of both."""
    rows = gates * _HIDDEN
    return [v(rows, _FEATURES), v(rows, _HIDDEN), v(rows), v(rows)]


def _cell(gates: int, states: int) -> Callable[[Values], Iterator[Arguments]]:
    """One step of a cell; several states come in a list."""

    def calls(v: Values) -> Iterator[Arguments]:
        hidden = [v(_BATCH, _HIDDEN) for _ in range(states)]
        state = hidden if states > 1 else hidden[0]
        weights = _weights(v, gates)
        yield given(v(_BATCH, _FEATURES), state, *weights)
        yield given(v(_BATCH, _FEATURES), state, *weights[:2])

    return calls


def _network(gates: int, states: int, packed: bool) -> Callable[[Values], Iterator[Arguments]]:
    """One layer over sequences; packed ones are told with the sizes of their steps."""

    def calls(v: Values) -> Iterator[Arguments]:
        hidden = [v(1, _BATCH, _HIDDEN) for _ in range(states)]
        state = hidden if states > 1 else hidden[0]
        options = (True, 1, 0.0, True, False)
        if packed:
            data = v(sum(_PACKED), _FEATURES), torch.tensor(_PACKED)
            yield given(*data, state, _weights(v, gates), *options)
            return
        for batch_first in (False, True):
            shape = (_BATCH, 6, _FEATURES) if batch_first else (6, _BATCH, _FEATURES)
            yield given(v(*shape), state, _weights(v, gates), *options, batch_first)

    return calls


def _gru_cell_backward(v: Values) -> Iterator[Arguments]:
    rows = 3 * _HIDDEN
    state, gates = (_BATCH, _HIDDEN), (_BATCH, rows)
    yield given(v(*state), v(*gates), v(*gates), v(*state), v(rows), v(rows))
    yield given(v(*state), v(*gates), v(*gates), v(*state), None, None)


def _lstm_cell_backward(v: Values) -> Iterator[Arguments]:
    rows = 4 * _HIDDEN
    state, gates = (_BATCH, _HIDDEN), (_BATCH, rows)
    gradients = v(*state), v(*state)
    yield given(*gradients, v(*gates), v(*gates), v(rows), v(rows), v(*state), v(*state))
    yield given(*gradients, v(*gates), v(*gates), None, None, v(*state), v(*state))


# --- images ------------------------------------------------------------------------------------


def _convolution_double_backward(v: Values) -> Iterator[Arguments]:
    image, weight, bias = (4, 4, 6, 6), (6, 4, 3, 3), (6,)
    operands = v(*image), v(*weight), v(*bias), v(4, 6, 6, 6), v(*weight), v(*image)
    yield given(*operands, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, _ALL)


def _convolution(dims: int) -> Callable[[Values], Iterator[Arguments]]:
    def calls(v: Values) -> Iterator[Arguments]:
        kernel = [3] * dims
        yield given(v(4, 4, *[4] * dims), v(6, 4, *kernel), kernel, v(6))
        yield given(v(4, 2, *[4] * dims), v(4, 2, *kernel), kernel, None, [1] * dims, [1] * dims)

    return calls


def _upsample(v: Values) -> Iterator[Arguments]:
    yield given(v(2, 4, 6, 4), [12, 12], False, None)
    yield given(v(4, 6, 6, 4), None, True, [2.0, 2.0])


def _upsample_backward(v: Values) -> Iterator[Arguments]:
    yield given(v(2, 4, 12, 12), [12, 12], [2, 4, 6, 4], False)
    yield given(v(4, 6, 12, 8), [12, 8], [4, 6, 6, 4], True)


def _grid_sampler_backward(v: Values) -> Iterator[Arguments]:
    for mode, align in ((0, False), (1, True)):
        grid = v(4, 2, 3, 4, 3).tanh()
        yield given(v(4, 6, 2, 3, 4), v(4, 6, 3, 4, 2), grid, mode, 0, align, [True, True])


# --- attention and products --------------------------------------------------------------------


def _attention(v: Values) -> Iterator[Arguments]:
    """No key is dropped."""
    yield given(v(4, 6, 4, 6), v(4, 6, 12, 6), v(4, 6, 12, 6))
    yield given(v(2, 4, 6, 4), v(2, 4, 6, 4), v(2, 4, 6, 4), is_causal=True)


def _grouped(v: Values) -> Iterator[Arguments]:
    """Rows of a multiple of 16 bytes, as it asks for."""
    half = torch.bfloat16
    yield given(v(4, 6, 8, dtype=half), v(4, 8, 16, dtype=half))
    yield given(v(12, 8, dtype=half), v(4, 8, 16, dtype=half), torch.tensor([3, 6, 9, 12]).int())


# --- losses, embeddings, quantization ----------------------------------------------------------


def _nll_loss(*image: int) -> Callable[[Values], Iterator[Arguments]]:
    def calls(v: Values) -> Iterator[Arguments]:
        for reduction in range(3):
            operands = v(6, 4, *image), v.index(4, 6, *image), v.positive(4)
            yield given(*operands, reduction)
        yield given(v(6, 4, *image), v.index(4, 6, *image))

    return calls


def _embedding_bag(v: Values) -> Iterator[Arguments]:
    """Sums, means and maxima; of sums, weighted ones too."""
    offsets = torch.tensor([0, 3, 6, 8])
    for mode in range(3):
        yield given(v(12, 6), v.index(12, 12), offsets, False, mode)
    weights = v.positive(12)
    yield given(v(12, 6), v.index(12, 12), offsets, False, 0, False, weights)


def _embedding_backward(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 4), v.index(12, 6), 12, -1, False, False)
    yield given(v(4, 6, 4), v.index(12, 4, 6), 12, 3, True, False)


def _observed(v: Values) -> Iterator[Arguments]:
    """One range for all numbers, and one for each channel."""
    on = torch.ones(1, dtype=torch.int64)
    for channels, per_row in ((1, False), (6, True)):
        running = [side * torch.ones(channels) for side in (-1.0, 1.0, 1.0)]
        zero_point = torch.zeros(channels, dtype=torch.int32)
        x = v(6, 4, dtype=torch.float32)
        yield given(x, on, on, *running, zero_point, 0.01, 0, 255, 0, per_row)


def _pack_padded_sequence_backward(v: Values) -> Iterator[Arguments]:
    steps, features = torch.tensor(_PACKED), _FEATURES
    for batch_first in (False, True):
        size = [_BATCH, len(_PACKED), features] if batch_first else [3, _BATCH, features]
        yield given(v(sum(_PACKED), features), size, steps, batch_first)


LAYERS: Table = {
    # --- normalization ---
    "aten._batch_norm_no_update.default": _batch_norm(),
    "aten._batch_norm_with_update_functional.default": _batch_norm(),
    "aten._native_batch_norm_legit_no_training.default": _batch_norm(),
    "aten._native_batch_norm_legit_functional.default": _batch_norm(True),
    "aten._batch_norm_impl_index.default": _batch_norm_by_index,
    "aten._batch_norm_impl_index_backward.default": _batch_norm_backward_by_index,
    "aten._weight_norm.default": _weight_norm,
    "aten._weight_norm_interface.default": _weight_norm,
    "aten._weight_norm_differentiable_backward.default": _weight_norm_backward,
    # --- recurrent networks ---
    "aten.gru_cell.default": _cell(3, 1),
    "aten.lstm_cell.default": _cell(4, 2),
    "aten.gru.input": _network(3, 1, packed=False),
    "aten.gru.data": _network(3, 1, packed=True),
    "aten.lstm.input": _network(4, 2, packed=False),
    "aten.lstm.data": _network(4, 2, packed=True),
    "aten.rnn_relu.input": _network(1, 1, packed=False),
    "aten.rnn_relu.data": _network(1, 1, packed=True),
    "aten.rnn_tanh.input": _network(1, 1, packed=False),
    "aten.rnn_tanh.data": _network(1, 1, packed=True),
    "aten._thnn_differentiable_gru_cell_backward.default": _gru_cell_backward,
    "aten._thnn_differentiable_lstm_cell_backward.default": _lstm_cell_backward,
    "aten._pack_padded_sequence_backward.default": _pack_padded_sequence_backward,
    "aten._pad_packed_sequence.default": lambda v: [
        given(v(sum(_PACKED), _FEATURES), torch.tensor(_PACKED), batch_first, 0.0, -1)
        for batch_first in (False, True)
    ],
    # --- images ---
    "aten._convolution_mode.default": lambda v: [
        given(v(4, 4, 6, 6), v(6, 4, 3, 3), v(6), [1, 1], padding, [1, 1], 1)
        for padding in ("same", "valid")
    ],
    "aten._convolution_double_backward.default": _convolution_double_backward,
    "aten.slow_conv3d.default": _convolution(3),
    "aten.thnn_conv2d.default": _convolution(2),
    "aten._upsample_bicubic2d_aa.vec": _upsample,
    "aten._upsample_lanczos2d_aa.vec": _upsample,
    "aten._upsample_bicubic2d_aa_backward.default": _upsample_backward,
    "aten._upsample_lanczos2d_aa_backward.default": _upsample_backward,
    "aten.affine_grid_generator.default": lambda v: [
        given(v(4, 2, 3), [4, 2, 6, 4], False),
        given(v(6, 3, 4), [6, 2, 2, 3, 4], True),
    ],
    "aten.affine_grid_generator_backward.default": lambda v: [
        given(v(4, 6, 4, 2), [4, 2, 6, 4], False),
        given(v(6, 2, 3, 4, 3), [6, 2, 2, 3, 4], True),
    ],
    "aten.grid_sampler_3d_backward.default": _grid_sampler_backward,
    # --- attention and products ---
    "aten.scaled_dot_product_attention.default": _attention,
    "aten._scaled_dot_product_attention_math.default": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": _attention,
    "aten._grouped_mm.default": _grouped,
    # --- losses, embeddings, quantization ---
    "aten.nll_loss.default": _nll_loss(),
    "aten.nll_loss2d.default": _nll_loss(2, 3),
    "aten.embedding_bag.default": _embedding_bag,
    "aten.embedding_backward.default": _embedding_backward,
    "aten.fake_quantize_per_tensor_affine.tensor_qparams": lambda v: [
        given(
            *(v(6, 4, dtype=torch.float32), torch.tensor(0.1), torch.tensor(5).int(), 0, 255),
        )
    ],
    "aten.fused_moving_avg_obs_fake_quant.default": _observed,
}
