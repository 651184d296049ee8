// Ops that join tensors, or give several parts of one.
#include "metadata/meta_families.h"

namespace shardprop {
namespace {

// The format of joined tensors is the one they agree on.
Format joined_format(std::span<const TensorMeta> tensors) {
  const Format first = suggested_format(tensors[0]);
  for (const TensorMeta& tensor : tensors) {
    if (suggested_format(tensor) != first) return Format::kContiguous;
  }
  return first;
}

DType joined_dtype(std::span<const TensorMeta> tensors) {
  DType dtype = tensors[0].dtype;
  for (const TensorMeta& tensor : tensors) dtype = promote(dtype, tensor.dtype);
  return dtype;
}

// Parts of `self` along a dim, of these sizes.
template <typename Size>
bool give_parts(Call& call, const TensorMeta& self, int dim, std::int64_t parts, Size size) {
  call.container = Container::kList;
  call.outputs.reserve(static_cast<std::size_t>(parts));
  for (std::int64_t i = 0; i < parts; ++i) {
    TensorMeta part = self;
    part.shape[dim] = size(i);
    call.give(part);
  }
  return true;
}

constexpr std::int64_t kMostParts = 1 << 16;

}  // namespace

bool cat(Call& call) {
  const auto tensors = call.tensor_list(0);
  const auto dim = call.integer(1);
  if (tensors.empty() || !dim || tensors[0].ndim() == 0) return false;
  const auto d = wrap_dim(*dim, tensors[0].ndim());
  if (!d) return false;
  Dims shape = tensors[0].shape;
  shape[*d] = 0;
  for (const TensorMeta& tensor : tensors) {
    // A tensor of shape (0,) joins whatever the others are; where they are vectors too, all is one.
    if (tensor.ndim() != shape.size()) return false;
    for (int i = 0; i < shape.size(); ++i) {
      if (i != *d && tensor.shape[i] != shape[i]) return false;
    }
    shape[*d] += tensor.shape[*d];
  }
  const auto strides = format_strides(shape, joined_format(tensors));
  return strides && call.give({shape, *strides, joined_dtype(tensors)});
}

// torch joins along the dim and splits it in two, save where the new dim comes last.
bool stack(Call& call) {
  const auto tensors = call.tensor_list(0);
  const auto dim = call.integer(1);
  if (tensors.empty() || !dim || tensors[0].shape.full()) return false;
  const int ndim = tensors[0].ndim();
  const auto d = wrap_dim(*dim, ndim + 1);
  if (!d) return false;
  for (const TensorMeta& tensor : tensors) {
    if (!(tensor.shape == tensors[0].shape)) return false;
  }
  const auto count = static_cast<std::int64_t>(tensors.size());
  const DType dtype = joined_dtype(tensors);
  Dims shape = tensors[0].shape;
  shape.insert(*d, count);
  if (*d < ndim) {
    TensorMeta joined{tensors[0].shape, {}, dtype};
    joined.shape[*d] = times(joined.shape[*d], count);
    const auto strides = format_strides(joined.shape, joined_format(tensors));
    if (!strides) return false;
    joined.stride = *strides;
    const auto split = view_strides(joined, shape);
    return split && call.give({shape, *split, dtype});
  }
  std::vector<TensorMeta> with_dim(tensors.begin(), tensors.end());
  for (TensorMeta& tensor : with_dim) {
    tensor.shape.push_back(1);
    tensor.stride.push_back(1);
  }
  const auto strides = format_strides(shape, joined_format(with_dim));
  return strides && call.give({shape, *strides, dtype});
}

bool split(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto size = call.integer(1), dim = call.integer(2);
  if (self == nullptr || !size || !dim || self->ndim() == 0 || *size <= 0) return false;
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d) return false;
  const auto whole = self->shape[*d];
  if (whole == 0) return false;
  const auto parts = (whole - 1) / *size + 1;
  if (parts > kMostParts) return false;
  return give_parts(call, *self, *d, parts,
                    [&](std::int64_t i) { return std::min(*size, whole - i * *size); });
}

bool split_with_sizes(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto sizes = call.int_list(1);
  const auto dim = call.integer(2);
  if (self == nullptr || !sizes || !dim || self->ndim() == 0) return false;
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d) return false;
  std::int64_t left = self->shape[*d];
  for (const auto size : *sizes) {
    if (size < 0 || size > left) return false;
    left -= size;
  }
  if (left != 0) return false;
  return give_parts(call, *self, *d, static_cast<std::int64_t>(sizes->size()),
                    [&](std::int64_t i) { return (*sizes)[static_cast<std::size_t>(i)]; });
}

bool unbind(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto dim = call.integer(1);
  if (self == nullptr || !dim || self->ndim() == 0) return false;
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d || self->shape[*d] > kMostParts) return false;
  TensorMeta part = *self;
  part.shape.erase(*d);
  part.stride.erase(*d);
  call.container = Container::kList;
  for (std::int64_t i = 0; i < self->shape[*d]; ++i) call.give(part);
  return true;
}

}  // namespace shardprop
