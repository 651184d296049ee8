// Reductions: new contiguous outputs with the reduced dims gone, or of size 1.
#include "metadata/meta_families.h"
#include "metadata/meta_params.h"

namespace shardprop {
namespace {

// The parameters, in their order; python/shardprop/metadata/closed_forms/tensors.py writes them.
enum Param : int {
  kDimSlot,      // -1: every dim is reduced
  kKeepDimSlot,  // -1: they go
  kDTypeSlot,    // -1: none
  kResult,
  kCategories,  // bits: the kinds of dtype that the op is known for, after the conversion it is
                // asked
  kFlags,
};

using namespace reduction_params;

// The dims to reduce, as bits.
std::optional<unsigned> reduced_dims(const Call& call, int ndim) {
  const auto slot = static_cast<int>(call.param(kDimSlot));
  const unsigned all = (1u << ndim) - 1;
  if (slot < 0 || call.absent(slot)) return all;
  const auto one = call.integer(slot);
  const auto dims = one ? std::optional(std::span(&call.at(slot).integer, 1)) : call.int_list(slot);
  if (!dims) return std::nullopt;
  if (dims->empty()) {
    if ((static_cast<unsigned>(call.param(kFlags)) & kNoDimsIsOdd) != 0) return std::nullopt;
    return all;
  }
  unsigned bits = 0;
  for (const auto dim : *dims) {
    const auto d = wrap_dim(dim, ndim);
    if (!d || ((bits >> *d) & 1) != 0) return std::nullopt;
    bits |= 1u << *d;
  }
  return ndim == 0 ? 0 : bits;
}

// The shape that is left, or none where the arguments are torch's to judge.
std::optional<Dims> reduced_shape(const Call& call, const TensorMeta& self) {
  const auto bits = reduced_dims(call, self.ndim());
  const auto keep_slot = static_cast<int>(call.param(kKeepDimSlot));
  const auto keep = keep_slot < 0 ? std::optional(false) : call.boolean(keep_slot);
  if (!bits || !keep) return std::nullopt;
  Dims shape;
  for (int d = 0; d < self.ndim(); ++d) {
    if (((*bits >> d) & 1) == 0) {
      shape.push_back(self.shape[d]);
    } else if (*keep) {
      shape.push_back(1);
    }
  }
  return shape;
}

bool is_known(const Call& call, const TensorMeta& self, DType dtype) {
  if ((static_cast<unsigned>(call.param(kFlags)) & kNeverNarrows) != 0 &&
      (!is_float(self.dtype) || promote(self.dtype, dtype) != dtype)) {
    return false;
  }
  if ((category(dtype) & static_cast<unsigned>(call.param(kCategories))) == 0) return false;
  // Over no elements some reductions are errors, and the strides of others odd.
  return numel(self.shape) > 0;
}

DType asked_dtype(const Call& call, DType own) {
  const auto slot = static_cast<int>(call.param(kDTypeSlot));
  return slot < 0 ? own : call.dtype_or(slot, own);
}

DType result_dtype(const Call& call, DType own) {
  const auto slot = static_cast<int>(call.param(kDTypeSlot));
  const bool asked = slot >= 0 && !call.absent(slot);
  switch (call.param(kResult)) {
    case kIntToInt64:
      return is_integral(own) && !asked ? DType::kInt64 : asked_dtype(call, own);
    case kToBool:
      return DType::kBool;
    case kToInt64:
      return DType::kInt64;
    default:
      return asked_dtype(call, own);
  }
}

}  // namespace

bool reduce(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr || !is_known(call, *self, asked_dtype(call, self->dtype))) return false;
  // A dtype that narrows is an error in some reductions.
  if (is_complex(self->dtype) != is_complex(asked_dtype(call, self->dtype))) return false;
  const auto shape = reduced_shape(call, *self);
  return shape && call.give_new(*shape, result_dtype(call, self->dtype));
}

// Over one dim, with the indices of what was found.
bool reduce_pair(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr || !is_known(call, *self, self->dtype)) return false;
  const auto shape = reduced_shape(call, *self);
  if (!shape) return false;
  call.container = Container::kTuple;
  return call.give_new(*shape, self->dtype) && call.give_new(*shape, DType::kInt64);
}

// Sums so far: the shape stays.
bool scan(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr || !is_known(call, *self, asked_dtype(call, self->dtype))) return false;
  if (is_complex(self->dtype) != is_complex(asked_dtype(call, self->dtype))) return false;
  const auto dim = call.integer(static_cast<int>(call.param(kDimSlot)));
  if (!dim || !wrap_dim(*dim, self->ndim())) return false;
  return call.give_new(self->shape, result_dtype(call, self->dtype));
}

}  // namespace shardprop
