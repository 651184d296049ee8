// Products of matrices: new contiguous outputs. Operands of several dtypes are torch's to word.
#include "metadata/meta_families.h"

namespace shardprop {
namespace {

// The tensor in a slot if it has that many dims.
const TensorMeta* of_dims(const Call& call, int slot, int ndim) {
  const TensorMeta* tensor = call.tensor(slot);
  return tensor != nullptr && tensor->ndim() == ndim ? tensor : nullptr;
}

// The shape of the product of the matrices in two slots, or none.
std::optional<Dims> product(const Call& call, int left, int right) {
  const TensorMeta *a = of_dims(call, left, 2), *b = of_dims(call, right, 2);
  if (a == nullptr || b == nullptr || a->dtype != b->dtype || a->shape[1] != b->shape[0]) {
    return std::nullopt;
  }
  return Dims{a->shape[0], b->shape[1]};
}

std::optional<Dims> batched_product(const Call& call, int left, int right) {
  const TensorMeta *a = of_dims(call, left, 3), *b = of_dims(call, right, 3);
  if (a == nullptr || b == nullptr || a->dtype != b->dtype || a->shape[0] != b->shape[0] ||
      a->shape[2] != b->shape[1]) {
    return std::nullopt;
  }
  return Dims{a->shape[0], a->shape[1], b->shape[2]};
}

// Factors of an added tensor: whole, or any number where the tensor is not.
bool factors_fit(const Call& call, DType dtype) {
  for (int slot = 3; slot < call.slots(); ++slot) {
    const ValueKind kind = call.at(slot).kind;
    if (kind != kInt && !(kind == kFloat && is_float(dtype))) return false;
  }
  return true;
}

}  // namespace

bool mm(Call& call) {
  const auto shape = product(call, 0, 1);
  return shape && call.give_new(*shape, call.tensor(0)->dtype);
}

bool bmm(Call& call) {
  const auto shape = batched_product(call, 0, 1);
  return shape && call.give_new(*shape, call.tensor(0)->dtype);
}

bool addmm(Call& call) {
  const auto shape = product(call, 1, 2);
  const TensorMeta* self = call.tensor(0);
  if (!shape || self == nullptr || self->dtype != call.tensor(1)->dtype) return false;
  const auto wide = broadcast(*shape, self->shape);
  if (!wide || !(*wide == *shape) || !factors_fit(call, self->dtype)) return false;
  return call.give_new(*shape, self->dtype);
}

bool baddbmm(Call& call) {
  const auto shape = batched_product(call, 1, 2);
  const TensorMeta* self = call.tensor(0);
  if (!shape || self == nullptr || self->dtype != call.tensor(1)->dtype) return false;
  const auto wide = broadcast(*shape, self->shape);
  if (!wide || !(*wide == *shape) || !factors_fit(call, self->dtype)) return false;
  return call.give_new(*shape, self->dtype);
}

bool mv(Call& call) {
  const TensorMeta *matrix = of_dims(call, 0, 2), *vector = of_dims(call, 1, 1);
  if (matrix == nullptr || vector == nullptr || matrix->dtype != vector->dtype ||
      matrix->shape[1] != vector->shape[0]) {
    return false;
  }
  return call.give_new({matrix->shape[0]}, matrix->dtype);
}

bool dot(Call& call) {
  const TensorMeta *a = of_dims(call, 0, 1), *b = of_dims(call, 1, 1);
  if (a == nullptr || b == nullptr || a->dtype != b->dtype || !(a->shape == b->shape)) return false;
  return call.give_new({}, a->dtype);
}

}  // namespace shardprop
