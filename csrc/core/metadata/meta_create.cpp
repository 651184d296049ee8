// Tensors that are the first operand, are made like it, or of sizes that are given.
#include "metadata/meta_families.h"

namespace shardprop {
namespace {

// Strides of a copy or of a new tensor like this one. Where a format is named, 4 and 5 dims decide
// whether it fits; preserving keeps a dense layout.
std::optional<Dims> copied_strides(const TensorMeta& tensor, Format format) {
  const bool last = format == Format::kChannelsLast || format == Format::kChannelsLast3d;
  if (last && numel(tensor.shape) == 0) return std::nullopt;
  return format == Format::kPreserve ? settled_like_strides(tensor)
                                     : format_strides(tensor.shape, format);
}

}  // namespace

// Parameters: whether the op writes; bits of the kinds of dtype it is for.
bool same(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr || (call.param(0) != 0 && is_expanded(*self))) return false;
  if ((category(self->dtype) & static_cast<unsigned>(call.param(1))) == 0) return false;
  return call.give(*self);
}

bool nothing(Call& call) {
  for (int slot = 0; slot < call.slots(); ++slot) {
    if (call.at(slot).kind == kTensorList) return call.give_nothing();
  }
  return false;
}

// Parameters: the slots of dtype and memory format, or -1; whether the default format preserves;
// bits of the kinds of dtype that the new tensor may have.
bool like(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr) return false;
  const auto dtype_slot = static_cast<int>(call.param(0));
  const auto format_slot = static_cast<int>(call.param(1));
  const auto usual = call.param(2) != 0 ? Format::kPreserve : Format::kContiguous;
  const Format format = format_slot < 0 ? usual : call.format_or(format_slot, usual);
  const auto strides = copied_strides(*self, format);
  if (!strides) return false;
  const DType dtype = dtype_slot < 0 ? self->dtype : call.dtype_or(dtype_slot, self->dtype);
  if ((category(dtype) & static_cast<unsigned>(call.param(3))) == 0) return false;
  return call.give({self->shape, *strides, dtype});
}

// Parameters: the slots of the sizes and of the dtype.
bool new_of_sizes(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto shape = call.sizes(static_cast<int>(call.param(0)));
  if (self == nullptr || !shape) return false;
  return call.give_new(*shape, call.dtype_or(static_cast<int>(call.param(1)), self->dtype));
}

// Parameters: the slots of sizes, strides and dtype.
bool new_strided(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto shape = call.sizes(static_cast<int>(call.param(0)));
  const auto stride = call.sizes(static_cast<int>(call.param(1)));
  if (self == nullptr || !shape || !stride || shape->size() != stride->size()) return false;
  return call.give({*shape, *stride, call.dtype_or(static_cast<int>(call.param(2)), self->dtype)});
}

// Parameters: the slots of dtype and memory format.
bool to_copy(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr) return false;
  const DType dtype = call.dtype_or(static_cast<int>(call.param(0)), self->dtype);
  const Format format = call.format_or(static_cast<int>(call.param(1)), Format::kPreserve);
  // torch gets there by up to three steps, which agree where the layout is dense.
  const bool copies = is_one_repeated(*self) && dtype != self->dtype;
  if (!(is_dense(*self) || copies) || numel(self->shape) == 0) return false;
  const auto strides = copied_strides(*self, format);
  return strides && call.give({self->shape, *strides, dtype});
}

bool clone(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr) return false;
  const auto strides = copied_strides(*self, call.format_or(1, Format::kPreserve));
  return strides && call.give({self->shape, *strides, self->dtype});
}

// input, p, train -> (output, mask)
bool dropout(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr || !is_float(self->dtype)) return false;
  if (settled_like_strides(*self) != self->stride) return false;
  if (call.at(1).kind == kFloat && !(call.at(1).number >= 0 && call.at(1).number <= 1)) {
    return false;
  }
  if (numel(self->shape) == 0) return false;
  call.container = Container::kTuple;
  return call.give(*self) && call.give({self->shape, self->stride, DType::kBool});
}

}  // namespace shardprop
