// Views: other sizes and strides over the same elements.
#include "metadata/meta_families.h"

namespace shardprop {
namespace {

constexpr std::int64_t kWholeDim = INT64_MAX;

// Sizes of a view of `count` elements, one of which may be -1 for what is left.
std::optional<Dims> infer_sizes(std::span<const std::int64_t> wanted, std::int64_t count) {
  if (wanted.size() > static_cast<std::size_t>(kMaxTensorDims)) return std::nullopt;
  Dims shape;
  std::int64_t known = 1;
  int open = -1;
  for (const auto size : wanted) {
    if (size < -1 || (size == -1 && open >= 0)) return std::nullopt;
    if (size == -1) {
      open = shape.size();
    } else if (__builtin_mul_overflow(known, size, &known)) {
      return std::nullopt;
    }
    shape.push_back(size);
  }
  if (open >= 0) {
    if (known == 0 || count % known != 0) return std::nullopt;
    shape[open] = count / known;
  } else if (known != count) {
    return std::nullopt;
  }
  return shape;
}

// Turns dims start..end into one, in place; false where they do not lie together.
bool flatten(TensorMeta& view, int start, int end) {
  auto stride = view.stride[end];
  auto size = view.shape[end];
  for (int d = end - 1; d >= start; --d) {
    if (view.shape[d] != 1 && view.shape[d + 1] != 1 &&
        view.stride[d] != view.stride[d + 1] * view.shape[d + 1]) {
      return false;
    }
    if (view.shape[d] != 1) stride = std::min(stride, view.stride[d]);
    size = times(size, view.shape[d]);
  }
  for (int d = end; d > start; --d) {
    view.shape.erase(d);
    view.stride.erase(d);
  }
  view.shape[start] = size;
  view.stride[start] = stride;
  return true;
}

// Turns dim d into one of `outer` and one of what is left, in place.
bool split_dim(TensorMeta& view, int d, std::int64_t outer) {
  if (view.shape.full() || outer == 0) return false;
  const auto inner = view.shape[d] / outer, stride = view.stride[d];
  view.shape[d] = outer;
  view.stride[d] = stride * inner;
  view.shape.insert(d + 1, inner);
  view.stride.insert(d + 1, stride);
  return true;
}

// torch makes a view's dims from the left, by flattening and splitting. Its strides differ from
// those of its compiled view in dims of size 1, and where it gives up.
std::optional<Dims> strides_from_the_left(const TensorMeta& tensor, const Dims& shape) {
  if (numel(tensor.shape) == 0) return contiguous_strides(shape);
  if (tensor.ndim() == 0 || shape.size() == 0) return Dims::filled(shape.size(), 1);
  if (is_contiguous(tensor) &&
      ((shape.size() == 1 && tensor.ndim() > 1) || (shape.size() == 2 && tensor.ndim() == 1))) {
    return contiguous_strides(shape);
  }
  TensorMeta view = tensor;
  int d = 0;
  for (const auto size : shape) {
    if (d >= view.ndim()) {
      const int last = view.ndim() - 1;
      if (size != 1 || !split_dim(view, last, view.shape[last])) return std::nullopt;
    } else if (size != view.shape[d]) {
      auto run = view.shape[d];
      int end = d;
      while (run % size != 0) {
        if (++end == view.ndim()) return std::nullopt;
        run = times(run, view.shape[end]);
      }
      if (end != d && !flatten(view, d, end)) return std::nullopt;
      if (run != size && !split_dim(view, d, size)) return std::nullopt;
    }
    ++d;
  }
  while (d < view.ndim()) {
    if (view.shape[d] != 1) return std::nullopt;
    view.shape.erase(d);
    view.stride.erase(d);
  }
  if (!(view.shape == shape)) return std::nullopt;
  return view.stride;
}

// Dims in a slot, each once, as bits; none where some is out of range or comes twice.
std::optional<unsigned> dim_bits(std::span<const std::int64_t> dims, int ndim) {
  unsigned bits = 0;
  for (const auto dim : dims) {
    const auto d = wrap_dim(dim, ndim);
    if (!d || ((bits >> *d) & 1) != 0) return std::nullopt;
    bits |= 1u << *d;
  }
  return bits;
}

}  // namespace

bool view(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto wanted = call.int_list(1);
  if (self == nullptr || !wanted) return false;
  const auto shape = infer_sizes(*wanted, numel(self->shape));
  if (!shape) return false;
  const auto strides = strides_from_the_left(*self, *shape);
  return strides && call.give({*shape, *strides, self->dtype});
}

// A new tensor, not a view: each dim so many times.
bool repeat(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto times = call.sizes(1);
  if (self == nullptr || !times || times->size() < self->ndim()) return false;
  const int added = times->size() - self->ndim();
  Dims shape = *times;
  std::int64_t count = 1;
  for (int d = 0; d < shape.size(); ++d) {
    const auto own = d < added ? 1 : self->shape[d - added];
    if (__builtin_mul_overflow(shape[d], own, &shape[d]) ||
        __builtin_mul_overflow(count, std::max<std::int64_t>(shape[d], 1), &count)) {
      return false;
    }
  }
  return call.give_new(shape, self->dtype);
}

bool transpose(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto first = call.integer(1), second = call.integer(2);
  if (self == nullptr || !first || !second) return false;
  const auto a = wrap_dim(*first, self->ndim()), b = wrap_dim(*second, self->ndim());
  if (!a || !b) return false;
  TensorMeta view = *self;
  if (view.ndim() > 0) {
    std::swap(view.shape[*a], view.shape[*b]);
    std::swap(view.stride[*a], view.stride[*b]);
  }
  return call.give(view);
}

bool t(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr || self->ndim() > 2) return false;
  TensorMeta view = *self;
  if (view.ndim() == 2) {
    std::swap(view.shape[0], view.shape[1]);
    std::swap(view.stride[0], view.stride[1]);
  }
  return call.give(view);
}

bool permute(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto dims = call.int_list(1);
  if (self == nullptr || !dims || dims->size() != static_cast<std::size_t>(self->ndim()) ||
      !dim_bits(*dims, self->ndim())) {
    return false;
  }
  TensorMeta view{{}, {}, self->dtype};
  for (const auto dim : *dims) {
    const int d = *wrap_dim(dim, self->ndim());
    view.shape.push_back(self->shape[d]);
    view.stride.push_back(self->stride[d]);
  }
  return call.give(view);
}

bool unsqueeze(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto dim = call.integer(1);
  if (self == nullptr || !dim || self->shape.full()) return false;
  const auto d = wrap_dim(*dim, self->ndim() + 1);
  if (!d) return false;
  TensorMeta view = *self;
  const auto stride = *d < self->ndim() ? self->shape[*d] * self->stride[*d] : 1;
  view.shape.insert(*d, 1);
  view.stride.insert(*d, stride);
  return call.give(view);
}

// Slot 1, if there is one: the dim or dims that may go.
bool squeeze(Call& call) {
  const TensorMeta* self = call.tensor(0);
  if (self == nullptr) return false;
  unsigned bits = ~0u;
  if (call.slots() > 1) {
    const auto dim = call.integer(1);
    const auto dims = call.int_list(1);
    if (!dim && !dims) return false;
    const auto found =
        dim ? dim_bits(std::span(&*dim, 1), self->ndim()) : dim_bits(*dims, self->ndim());
    if (!found) return false;
    bits = *found;
  }
  TensorMeta view{{}, {}, self->dtype};
  for (int d = 0; d < self->ndim(); ++d) {
    if (self->shape[d] == 1 && ((bits >> d) & 1) != 0) continue;
    view.shape.push_back(self->shape[d]);
    view.stride.push_back(self->stride[d]);
  }
  return call.give(view);
}

bool expand(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto sizes = call.int_list(1);
  if (self == nullptr || !sizes || sizes->size() > static_cast<std::size_t>(kMaxTensorDims)) {
    return false;
  }
  const int ndim = static_cast<int>(sizes->size()), added = ndim - self->ndim();
  if (added < 0) return false;
  TensorMeta view{Dims::filled(ndim, 0), Dims::filled(ndim, 0), self->dtype};
  if (self->ndim() == 0) {
    for (const auto size : *sizes) {
      if (size < 0) return false;
    }
    return call.give({*call.sizes(1), view.stride, self->dtype});
  }
  // From the right: an added dim has the stride that an outer dim of size 1 would have.
  for (int d = ndim - 1; d >= 0; --d) {
    const int own = d - added;
    const auto size = own >= 0 ? self->shape[own] : 1;
    auto stride = own >= 0       ? self->stride[own]
                  : d + 1 < ndim ? view.shape[d + 1] * view.stride[d + 1]
                                 : 1;
    auto wanted = (*sizes)[static_cast<std::size_t>(d)];
    if (wanted == -1) {
      if (own < 0) return false;
      wanted = size;
    }
    if (wanted < 0 || (wanted != size && size != 1)) return false;
    if (wanted != size) stride = 0;
    view.shape[d] = wanted;
    view.stride[d] = stride;
  }
  return call.give(view);
}

bool select(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto dim = call.integer(1), index = call.integer(2);
  if (self == nullptr || !dim || !index || self->ndim() == 0) return false;
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d || *index >= self->shape[*d] || *index < -self->shape[*d]) return false;
  TensorMeta view = *self;
  view.shape.erase(*d);
  view.stride.erase(*d);
  return call.give(view);
}

bool slice(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto dim = call.integer(1), step = call.integer(4);
  if (self == nullptr || !dim || !step || self->ndim() == 0 || *step <= 0) return false;
  const auto d = wrap_dim(*dim, self->ndim());
  if (!d) return false;
  TensorMeta view = *self;
  const auto size = self->shape[*d];
  const auto bound = [&](int slot, std::int64_t otherwise) {
    const auto index = call.integer(slot).value_or(otherwise);
    return index < 0 ? std::max<std::int64_t>(index + size, 0) : std::min(index, size);
  };
  const auto start = bound(2, 0), end = bound(3, kWholeDim);
  const auto length = std::max<std::int64_t>(end - start, 0);
  view.shape[*d] = length == 0 ? 0 : (length - 1) / *step + 1;
  if (__builtin_mul_overflow(view.stride[*d], *step, &view.stride[*d])) return false;
  return call.give(view);
}

}  // namespace shardprop
