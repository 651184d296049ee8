#include "metadata/tensor_meta.h"

#include <algorithm>

namespace shardprop {
namespace {

// Dims from the innermost outwards, for 4 and for 5 of them; empty for other numbers.
std::span<const int> channels_last_order(int ndim) {
  static constexpr std::array<int, 4> kPlane{1, 3, 2, 0};
  static constexpr std::array<int, 5> kVolume{1, 4, 3, 2, 0};
  if (ndim == 4) return kPlane;
  if (ndim == 5) return kVolume;
  return {};
}

bool looks_channels_last(const TensorMeta& tensor) {
  const auto order = channels_last_order(tensor.ndim());
  if (order.empty() || tensor.stride[1] == 0) return false;
  std::int64_t least = 0;
  for (const int d : order) {
    if (tensor.shape[d] == 0 || tensor.stride[d] < least) return false;
    // N111 in either format has these strides; torch takes it for contiguous.
    if (d == 0 && least == tensor.stride[1]) return false;
    least = tensor.stride[d] * std::max<std::int64_t>(tensor.shape[d], 1);
  }
  return true;
}

}  // namespace

unsigned category(DType dtype) {
  if (dtype == DType::kBool) return kBools;
  if (is_integral(dtype)) return kInts;
  return is_float(dtype) ? kFloats : kComplexes;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);  // by rank: b has at least a's category
  if (is_complex(b)) {
    return a == DType::kDouble ? DType::kComplexDouble : b;
  }
  if (a == DType::kHalf && b == DType::kBFloat16) return DType::kFloat;
  if (a == DType::kUInt8 && b == DType::kInt8) return DType::kInt16;
  return b;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_float(from) && is_integral(to)) return false;
  return from == DType::kBool || to != DType::kBool;
}

bool is_moderate(const TensorMeta& tensor) {
  std::int64_t count = 1;
  for (int d = 0; d < tensor.ndim(); ++d) {
    const auto size = std::max<std::int64_t>(tensor.shape[d], 1);
    if (size > kMostElements / count) return false;
    count *= size;
    if (tensor.stride[d] > kMostElements / size) return false;
  }
  return true;
}

std::int64_t numel(const Dims& shape) {
  std::int64_t count = 1;
  for (const auto size : shape) count = times(count, size);
  return count;
}

Dims contiguous_strides(const Dims& shape) {
  Dims stride = Dims::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d) {
    stride[d] = stride[d + 1] * std::max<std::int64_t>(shape[d + 1], 1);
  }
  return stride;
}

Dims channels_last_strides(const Dims& shape) {
  Dims stride = Dims::filled(shape.size(), 1);
  std::int64_t next = 1;
  for (const int d : channels_last_order(shape.size())) {
    stride[d] = next;
    next = times(next, std::max<std::int64_t>(shape[d], 1));
  }
  return stride;
}

bool is_contiguous(const TensorMeta& tensor) {
  if (numel(tensor.shape) == 0) return true;
  std::int64_t next = 1;
  for (int d = tensor.ndim() - 1; d >= 0; --d) {
    if (tensor.shape[d] == 1) continue;
    if (tensor.stride[d] != next) return false;
    next = times(next, tensor.shape[d]);
  }
  return true;
}

bool is_channels_last_contiguous(const TensorMeta& tensor) {
  const auto order = channels_last_order(tensor.ndim());
  std::int64_t next = 1;
  for (const int d : order) {
    if (tensor.shape[d] == 1) continue;
    if (tensor.stride[d] != next) return false;
    next = times(next, tensor.shape[d]);
  }
  return !order.empty();
}

bool is_dense(const TensorMeta& tensor) {
  if (is_contiguous(tensor) || is_channels_last_contiguous(tensor)) return true;
  std::array<int, kMaxTensorDims> order;
  int count = 0;
  for (int d = 0; d < tensor.ndim(); ++d) {
    if (tensor.shape[d] >= 2) order[static_cast<std::size_t>(count++)] = d;
  }
  std::sort(order.begin(), order.begin() + count,
            [&](int a, int b) { return tensor.stride[a] < tensor.stride[b]; });
  std::int64_t next = 1;
  for (const int d : std::span(order.data(), static_cast<std::size_t>(count))) {
    if (tensor.stride[d] != next) return false;
    next = times(next, tensor.shape[d]);
  }
  return true;
}

bool is_expanded(const TensorMeta& tensor) {
  if (numel(tensor.shape) == 0) return false;
  for (int d = 0; d < tensor.ndim(); ++d) {
    if (tensor.stride[d] == 0 && tensor.shape[d] > 1) return true;
  }
  return false;
}

bool is_one_repeated(const TensorMeta& tensor) {
  return numel(tensor.shape) > 1 && tensor.stride == Dims::filled(tensor.ndim(), 0);
}

bool is_row_major(const TensorMeta& tensor) {
  return tensor.stride == contiguous_strides(tensor.shape);
}

Format suggested_format(const TensorMeta& tensor) {
  if (!looks_channels_last(tensor)) return Format::kContiguous;
  return tensor.ndim() == 4 ? Format::kChannelsLast : Format::kChannelsLast3d;
}

std::optional<Dims> format_strides(const Dims& shape, Format format) {
  switch (format) {
    case Format::kContiguous:
      return contiguous_strides(shape);
    case Format::kChannelsLast:
      if (shape.size() != 4) return std::nullopt;
      return channels_last_strides(shape);
    case Format::kChannelsLast3d:
      if (shape.size() != 5) return std::nullopt;
      return channels_last_strides(shape);
    case Format::kPreserve:
      break;
  }
  return std::nullopt;
}

Dims dense_strides_like(const TensorMeta& tensor) {
  const int ndim = tensor.ndim();
  std::array<int, kMaxTensorDims> order;  // innermost first
  for (int i = 0; i < ndim; ++i) order[static_cast<std::size_t>(i)] = ndim - 1 - i;
  const auto compare = [&](int a, int b) {
    if (tensor.stride[a] == 0 || tensor.stride[b] == 0) return 0;
    if (tensor.stride[a] != tensor.stride[b]) return tensor.stride[a] < tensor.stride[b] ? -1 : 1;
    return tensor.shape[a] > tensor.shape[b] ? 1 : 0;
  };
  // An insertion that walks past what cannot be compared: no plain sort gives the same.
  for (int i = 1; i < ndim; ++i) {
    auto moving = static_cast<std::size_t>(i);
    for (int j = i - 1; j >= 0; --j) {
      const auto at = static_cast<std::size_t>(j);
      const int found = compare(order[at], order[moving]);
      if (found < 0) break;
      if (found == 0) continue;
      std::swap(order[at], order[moving]);
      moving = at;
    }
  }
  Dims stride = Dims::filled(ndim, 1);
  std::int64_t next = 1;
  for (int i = 0; i < ndim; ++i) {
    const int d = order[static_cast<std::size_t>(i)];
    stride[d] = next;
    next = times(next, std::max<std::int64_t>(tensor.shape[d], 1));
  }
  return stride;
}

Dims like_strides(const TensorMeta& tensor) {
  return is_dense(tensor) ? tensor.stride : dense_strides_like(tensor);
}

std::optional<Dims> settled_like_strides(const TensorMeta& tensor) {
  const Dims row_major = contiguous_strides(tensor.shape);
  if (tensor.stride == row_major || is_one_repeated(tensor)) return row_major;
  if (numel(tensor.shape) == 0) return std::nullopt;
  const TensorMeta like{tensor.shape, like_strides(tensor), tensor.dtype};
  if (is_contiguous(tensor) || is_contiguous(like)) return std::nullopt;
  if (is_channels_last_contiguous(like) && like.stride != channels_last_strides(like.shape)) {
    return std::nullopt;
  }
  if (dense_strides_like(like) != like.stride) return std::nullopt;
  return like.stride;
}

std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims shape = longer;
  const int offset = longer.size() - shorter.size();
  for (int d = 0; d < shorter.size(); ++d) {
    std::int64_t& size = shape[offset + d];
    if (size == shorter[d] || shorter[d] == 1) continue;
    if (size != 1) return std::nullopt;
    size = shorter[d];
  }
  return shape;
}

std::optional<int> wrap_dim(std::int64_t dim, int ndim) {
  const std::int64_t range = std::max(ndim, 1);
  if (dim < -range || dim >= range) return std::nullopt;
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

std::optional<Dims> view_strides(const TensorMeta& tensor, const Dims& shape) {
  if (numel(tensor.shape) == 0) {
    if (shape == tensor.shape) return tensor.stride;
    return contiguous_strides(shape);
  }
  // Each run of old dims that lies together must be filled by a run of new dims.
  Dims stride = Dims::filled(shape.size(), 1);
  int to = shape.size() - 1;
  std::int64_t base = tensor.ndim() == 0 ? 1 : tensor.stride[tensor.ndim() - 1];
  std::int64_t old_run = 1, new_run = 1;
  for (int from = tensor.ndim() - 1; from >= 0; --from) {
    old_run = times(old_run, tensor.shape[from]);
    const bool ends =
        from == 0 || (tensor.shape[from - 1] != 1 && tensor.stride[from - 1] != old_run * base);
    if (!ends) continue;
    while (to >= 0 && (new_run < old_run || shape[to] == 1)) {
      stride[to] = new_run * base;
      new_run = times(new_run, shape[to]);
      --to;
    }
    if (new_run != old_run) return std::nullopt;
    if (from > 0) {
      base = tensor.stride[from - 1];
      old_run = new_run = 1;
    }
  }
  if (to != -1 && tensor.ndim() > 0) return std::nullopt;
  return stride;
}

}  // namespace shardprop
