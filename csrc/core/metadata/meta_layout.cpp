#include "metadata/meta_layout.h"

#include <algorithm>

namespace shardprop {
namespace {

using Operands = std::span<const TensorMeta* const>;

enum class Iterator : std::uint8_t { kCompiled, kPython };

// The stride of an operand along a dim of the output: 0 where it is repeated.
std::int64_t stride_along(const TensorMeta& operand, const Dims& shape, int dim) {
  const int own = dim - (shape.size() - operand.ndim());
  if (own < 0 || (operand.shape[own] == 1 && shape[dim] != 1)) return 0;
  return operand.stride[own];
}

// Should dim a come further out than dim b (1), further in (-1), or cannot the strides tell?
int compare(Operands operands, const Dims& shape, int a, int b) {
  for (const TensorMeta* operand : operands) {
    const auto stride_a = stride_along(*operand, shape, a);
    const auto stride_b = stride_along(*operand, shape, b);
    if (stride_a == 0 || stride_b == 0) continue;
    if (stride_a != stride_b) return stride_a < stride_b ? -1 : 1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

// Dense strides in the order of the operands' dims.
Dims permuted_strides(Operands operands, const Dims& shape, Iterator iterator) {
  const int ndim = shape.size();
  std::array<int, kMaxTensorDims> order;  // innermost first
  for (int i = 0; i < ndim; ++i) order[static_cast<std::size_t>(i)] = ndim - 1 - i;
  // As in dense_strides_like: walks past dims that cannot be compared.
  for (int i = 1; i < ndim; ++i) {
    auto moving = static_cast<std::size_t>(i);
    for (int j = i - 1; j >= 0; --j) {
      const auto at = static_cast<std::size_t>(j);
      const int found = compare(operands, shape, order[at], order[moving]);
      if (found < 0) break;
      if (found == 0) continue;
      std::swap(order[at], order[moving]);
      moving = at;
    }
  }
  bool row_major = true;
  Dims stride = Dims::filled(ndim, 1);
  std::int64_t next = 1;
  for (int i = 0; i < ndim; ++i) {
    const int d = order[static_cast<std::size_t>(i)];
    row_major &= d == ndim - 1 - i;
    stride[d] = next;
    // The compiled iterator lets a size of 0 make the strides beyond it 0.
    next = times(next,
                 iterator == Iterator::kCompiled ? shape[d] : std::max<std::int64_t>(shape[d], 1));
  }
  return row_major ? contiguous_strides(shape) : stride;
}

std::optional<Dims> short_way(Operands operands, const Dims& shape, Iterator iterator) {
  bool contiguous = true, channels_last = true;
  for (const TensorMeta* operand : operands) {
    contiguous &= is_contiguous(*operand);
    channels_last &= operand->ndim() == 4 && is_channels_last_contiguous(*operand);
  }
  if (iterator == Iterator::kPython) {
    if (shape.size() < 2 || (contiguous && !channels_last)) return contiguous_strides(shape);
    if (channels_last && !contiguous) return channels_last_strides(shape);
    return std::nullopt;
  }
  if (contiguous) return contiguous_strides(shape);
  if (channels_last) return channels_last_strides(shape);
  if (!is_dense(*operands[0])) return std::nullopt;
  for (const TensorMeta* operand : operands) {
    if (operand->stride != operands[0]->stride) return std::nullopt;
  }
  return operands[0]->stride;
}

// What one of the two gives.
Dims strides_by(Iterator iterator, Operands operands, const Dims& shape) {
  const bool one_shape = std::all_of(operands.begin(), operands.end(),
                                     [&](const TensorMeta* o) { return o->shape == shape; });
  if (one_shape) {
    if (const auto strides = short_way(operands, shape, iterator)) return *strides;
  }
  return permuted_strides(operands, shape, iterator);
}

// The Python iterator looks at no tensors of no dims, on some devices.
std::optional<Dims> strides_in_python(Operands operands, const Dims& shape) {
  std::array<const TensorMeta*, kMostOperands> with_dims;
  std::size_t count = 0;
  for (const TensorMeta* operand : operands) {
    if (operand->ndim() > 0) with_dims[count++] = operand;
  }
  if (count == 0) return Dims();
  const Dims strides = strides_by(Iterator::kPython, {with_dims.data(), count}, shape);
  if (count < operands.size() && strides != strides_by(Iterator::kPython, operands, shape)) {
    return std::nullopt;
  }
  return strides;
}

TensorMeta expanded(const TensorMeta& operand, const Dims& shape) {
  TensorMeta wide{shape, Dims::filled(shape.size(), 0), operand.dtype};
  for (int d = 0; d < shape.size(); ++d) wide.stride[d] = stride_along(operand, shape, d);
  return wide;
}

// A dim of size 1 may have any stride, and every way reads something else into it.
bool are_tidy(Operands operands, const Dims& shape) {
  if (std::find(shape.begin(), shape.end(), 1) == shape.end()) return true;
  return std::all_of(operands.begin(), operands.end(), [&](const TensorMeta* operand) {
    return is_row_major(*operand) || is_one_repeated(*operand) ||
           (operand->shape == shape && settled_like_strides(*operand) == operand->stride);
  });
}

}  // namespace

std::optional<Dims> elementwise_strides(Operands operands, const Dims& shape) {
  if (operands.empty() || operands.size() > kMostOperands) return std::nullopt;
  const Dims row_major = contiguous_strides(shape);
  const bool has_elements = numel(shape) > 0;
  if (std::all_of(operands.begin(), operands.end(), [&](const TensorMeta* operand) {
        return (operand->shape == shape && operand->stride == row_major) ||
               (operand->ndim() == 0 && has_elements) ||
               (operand->shape == shape && is_one_repeated(*operand));
      })) {
    return row_major;
  }
  if (!has_elements || !are_tidy(operands, shape)) return std::nullopt;
  const Dims strides = strides_by(Iterator::kCompiled, operands, shape);
  if (strides_in_python(operands, shape) != strides) return std::nullopt;
  // By copies of the operands, made before they broadcast or after.
  std::array<TensorMeta, kMostOperands> copies;
  std::array<const TensorMeta*, kMostOperands> copied;
  for (const bool after : {false, true}) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      copies[i] = after ? expanded(*operands[i], shape) : *operands[i];
      copies[i].stride = like_strides(copies[i]);
      copied[i] = &copies[i];
    }
    if (strides_in_python({copied.data(), operands.size()}, shape) != strides) return std::nullopt;
  }
  const TensorMeta result{shape, strides, operands[0]->dtype};
  const TensorMeta* last = &result;
  if (strides_in_python({&last, 1}, shape) != strides) return std::nullopt;
  return strides;
}

}  // namespace shardprop
