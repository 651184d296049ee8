// Ops that look elements up by index.
#include "metadata/meta_families.h"

namespace shardprop {
namespace {

bool is_index(const TensorMeta* tensor) {
  return tensor != nullptr && (tensor->dtype == DType::kInt64 || tensor->dtype == DType::kInt32);
}

// Are the sizes of `part` within those of `whole`, save in one dim?
bool fits(const Dims& part, const Dims& whole, int except) {
  for (int d = 0; d < part.size(); ++d) {
    if (d != except && part[d] > whole[d]) return false;
  }
  return true;
}

}  // namespace

bool embedding(Call& call) {
  const TensorMeta *weight = call.tensor(0), *indices = call.tensor(1);
  if (weight == nullptr || !is_index(indices) || weight->ndim() != 2 || indices->shape.full()) {
    return false;
  }
  Dims shape = indices->shape;
  shape.push_back(weight->shape[1]);
  return call.give_new(shape, weight->dtype);
}

bool embedding_backward(Call& call) {
  const TensorMeta *grad = call.tensor(0), *indices = call.tensor(1);
  const auto rows = call.integer(2);
  if (grad == nullptr || !is_index(indices) || !rows || *rows < 0 || grad->ndim() < 1) return false;
  if (grad->ndim() != indices->ndim() + 1) return false;
  return call.give_new({*rows, grad->shape[grad->ndim() - 1]}, grad->dtype);
}

bool index_select(Call& call) {
  const TensorMeta *self = call.tensor(0), *index = call.tensor(2);
  const auto dim = call.integer(1);
  if (self == nullptr || !is_index(index) || !dim || self->ndim() == 0 || index->ndim() != 1) {
    return false;
  }
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d) return false;
  Dims shape = self->shape;
  shape[*d] = index->shape[0];
  return call.give_new(shape, self->dtype);
}

bool gather(Call& call) {
  const TensorMeta *self = call.tensor(0), *index = call.tensor(2);
  const auto dim = call.integer(1);
  if (self == nullptr || !is_index(index) || !dim || self->ndim() == 0 ||
      index->ndim() != self->ndim()) {
    return false;
  }
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d || numel(index->shape) == 0 || !fits(index->shape, self->shape, *d)) return false;
  return call.give_new(index->shape, self->dtype);
}

// self, dim, index, src or value; parameter 0: in place.
bool scatter(Call& call) {
  const TensorMeta *self = call.tensor(0), *index = call.tensor(2), *src = call.tensor(3);
  const auto dim = call.integer(1);
  if (self == nullptr || index == nullptr || index->dtype != DType::kInt64 || !dim ||
      self->ndim() == 0 || index->ndim() != self->ndim()) {
    return false;
  }
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d || numel(index->shape) == 0 || !fits(index->shape, self->shape, *d)) return false;
  if (src != nullptr && (src->dtype != self->dtype || src->ndim() != self->ndim() ||
                         !fits(index->shape, src->shape, -1))) {
    return false;
  }
  if (call.param(0) != 0) return !is_expanded(*self) && call.give(*self);
  return call.give_new(self->shape, self->dtype);
}

// grad, sizes of the input, dim, start, end, step: zeros but for the slice.
bool slice_backward(Call& call) {
  const TensorMeta* grad = call.tensor(0);
  const auto shape = call.sizes(1);
  const auto dim = call.integer(2), start = call.integer(3), end = call.integer(4),
             step = call.integer(5);
  if (grad == nullptr || !shape || !dim || !start || !end || !step || *step < 1 ||
      shape->size() == 0 || numel(grad->shape) == 0 || grad->ndim() != shape->size()) {
    return false;
  }
  const auto d = wrap_dim(*dim, shape->size());
  if (!d) return false;
  const auto size = (*shape)[*d];
  const auto bound = [&](std::int64_t index) {
    return index < 0 ? std::max<std::int64_t>(index + size, 0) : std::min(index, size);
  };
  const auto length = bound(*end) - bound(*start);
  if (length < 1 || *step > size) return false;
  Dims sliced = *shape;
  sliced[*d] = (length + *step - 1) / *step;
  if (grad->shape != sliced) return false;
  return call.give_new(*shape, grad->dtype);
}

// grad, sizes of the input, dim, index: zeros but for what was selected.
bool select_backward(Call& call) {
  const TensorMeta* grad = call.tensor(0);
  const auto shape = call.sizes(1);
  const auto dim = call.integer(2), index = call.integer(3);
  if (grad == nullptr || !shape || !dim || !index || shape->size() == 0) return false;
  const auto d = wrap_dim(*dim, shape->size());
  if (!d || *index >= (*shape)[*d] || *index < -(*shape)[*d]) return false;
  Dims selected = *shape;
  selected.erase(*d);
  if (grad->shape != selected || numel(selected) == 0) return false;
  return call.give_new(*shape, grad->dtype);
}

// self, k, dim -> (values, indices)
bool top_k(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto k = call.integer(1), dim = call.integer(2);
  if (self == nullptr || !k || !dim || self->ndim() == 0 || is_complex(self->dtype)) return false;
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d || *k < 0 || *k > self->shape[*d]) return false;
  Dims shape = self->shape;
  shape[*d] = *k;
  call.container = Container::kTuple;
  return call.give_new(shape, self->dtype) && call.give_new(shape, DType::kInt64);
}

// Parameter 0: the slot of the dim.
bool sort(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto dim = call.integer(static_cast<int>(call.param(0)));
  if (self == nullptr || !dim || !wrap_dim(*dim, self->ndim()) || is_complex(self->dtype)) {
    return false;
  }
  const auto strides = settled_like_strides(*self);
  if (!strides) return false;
  call.container = Container::kTuple;
  return call.give({self->shape, *strides, self->dtype}) &&
         call.give({self->shape, *strides, DType::kInt64});
}

}  // namespace shardprop
