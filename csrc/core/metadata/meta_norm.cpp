// Softmax and norms. torch puts most of these together from several ops, whose strides follow each
// other; where all operands are contiguous, so is every step.
#include "metadata/meta_families.h"

namespace shardprop {
namespace {

bool all_contiguous(const Call& call) {
  return std::all_of(call.tensors.begin(), call.tensors.end(), [](const TensorMeta& tensor) {
    // Without elements, and in dims of size 1, steps may differ in their strides.
    return (numel(tensor.shape) > 0 && is_row_major(tensor)) || is_one_repeated(tensor);
  });
}

bool all_of_dtype(const Call& call, DType dtype) {
  return std::all_of(call.tensors.begin(), call.tensors.end(),
                     [&](const TensorMeta& tensor) { return tensor.dtype == dtype; });
}

bool is_half(DType dtype) { return dtype == DType::kHalf || dtype == DType::kBFloat16; }
// What statistics are computed in.
DType wide(DType dtype) { return is_half(dtype) ? DType::kFloat : dtype; }

// How many of a tensor's last dims a norm goes over, and whether they are these.
bool ends_with(const Dims& shape, const Dims& tail) {
  if (tail.size() == 0 || tail.size() > shape.size()) return false;
  for (int d = 0; d < tail.size(); ++d) {
    if (shape[shape.size() - tail.size() + d] != tail[d]) return false;
  }
  return true;
}

Dims with_ones(const Dims& shape, int last) {
  Dims ones = shape;
  for (int d = shape.size() - last; d < shape.size(); ++d) ones[d] = 1;
  return ones;
}

bool absent_or_shaped(const Call& call, int slot, const Dims& shape) {
  return call.absent(slot) || (call.tensor(slot) != nullptr && call.tensor(slot)->shape == shape);
}

// The mask of wanted gradients: a list of bools, which the binding reads as a list of numbers.
std::optional<bool> wanted(const Call& call, int slot, std::uint32_t index) {
  const Value& mask = call.at(slot);
  if (mask.kind != kScalarList || index >= mask.count) return std::nullopt;
  const Value& value = call.scalars[mask.first + index];
  if (value.kind != kBool) return std::nullopt;
  return value.integer != 0;
}

bool give_if(Call& call, bool is_there, const TensorMeta& like) {
  if (!is_there) return call.give_nothing();
  return call.give_new(like.shape, like.dtype);
}

}  // namespace

// self, dim, half_to_float (which is declined)
bool softmax(Call& call) {
  const TensorMeta* self = call.tensor(0);
  const auto dim = call.integer(1);
  const auto to_float = call.boolean(2);
  if (self == nullptr || !dim || !to_float || !is_float(self->dtype) || *to_float) return false;
  if (!wrap_dim(*dim, self->ndim()) || self->ndim() == 0 || !all_contiguous(call)) return false;
  return call.give_new(self->shape, self->dtype);
}

// grad, output, dim, input dtype
bool softmax_backward(Call& call) {
  const TensorMeta *grad = call.tensor(0), *output = call.tensor(1);
  const auto dim = call.integer(2);
  if (grad == nullptr || output == nullptr || !dim || !(grad->shape == output->shape) ||
      grad->dtype != output->dtype || !is_float(grad->dtype) || grad->ndim() == 0 ||
      !wrap_dim(*dim, grad->ndim()) || call.at(3).kind != kDTypeValue || !all_contiguous(call)) {
    return false;
  }
  if (call.dtype_or(3, grad->dtype) != grad->dtype) return false;
  return call.give_new(grad->shape, grad->dtype);
}

// input, normalized shape, weight, bias, eps -> (output, mean, rstd)
bool layer_norm(Call& call) {
  const TensorMeta* input = call.tensor(0);
  const auto tail = call.sizes(1);
  if (input == nullptr || !tail || !is_float(input->dtype) || !all_contiguous(call) ||
      !all_of_dtype(call, input->dtype) || !ends_with(input->shape, *tail) ||
      !absent_or_shaped(call, 2, *tail) || !absent_or_shaped(call, 3, *tail)) {
    return false;
  }
  if (is_half(input->dtype) && call.device == Device::kOther) return false;
  const DType stats = call.device == Device::kCpu ? input->dtype : wide(input->dtype);
  const Dims outer = with_ones(input->shape, tail->size());
  call.container = Container::kTuple;
  return call.give_new(input->shape, input->dtype) && call.give_new(outer, stats) &&
         call.give_new(outer, stats);
}

// grad, input, normalized shape, mean, rstd, weight, bias, mask
bool layer_norm_backward(Call& call) {
  const TensorMeta *grad = call.tensor(0), *input = call.tensor(1), *mean = call.tensor(3),
                   *rstd = call.tensor(4);
  const auto tail = call.sizes(2);
  if (grad == nullptr || input == nullptr || mean == nullptr || rstd == nullptr || !tail ||
      !is_float(input->dtype) || grad->dtype != input->dtype || !(grad->shape == input->shape) ||
      !all_contiguous(call) || !ends_with(input->shape, *tail) ||
      !absent_or_shaped(call, 5, *tail) || !absent_or_shaped(call, 6, *tail)) {
    return false;
  }
  const Dims outer = with_ones(input->shape, tail->size());
  if (!(mean->shape == outer) || !(rstd->shape == outer)) return false;
  for (const TensorMeta* stats : {mean, rstd}) {
    if (stats->dtype != input->dtype && stats->dtype != wide(input->dtype)) return false;
  }
  for (const int slot : {5, 6}) {
    if (!call.absent(slot) && call.tensor(slot)->dtype != input->dtype) return false;
  }
  const auto of_input = wanted(call, 7, 0), of_weight = wanted(call, 7, 1),
             of_bias = wanted(call, 7, 2);
  if (!of_input || !of_weight || !of_bias) return false;
  const TensorMeta like{*tail, {}, input->dtype};
  call.container = Container::kTuple;
  return give_if(call, *of_input, *input) && give_if(call, *of_weight && !call.absent(5), like) &&
         give_if(call, *of_bias && !call.absent(6), like);
}

// input, weight, bias, N, C, HxW, groups, eps -> (output, mean, rstd)
bool group_norm(Call& call) {
  const TensorMeta* input = call.tensor(0);
  const auto n = call.integer(3), c = call.integer(4), area = call.integer(5),
             groups = call.integer(6);
  if (input == nullptr || !n || !c || !area || !groups || *groups < 1 || *c % *groups != 0 ||
      !is_float(input->dtype) || is_half(input->dtype) || !all_contiguous(call) ||
      !all_of_dtype(call, input->dtype) || input->ndim() < 2 || input->shape[0] != *n ||
      input->shape[1] != *c || numel(input->shape) != *n * *c * *area ||
      !absent_or_shaped(call, 1, {*c}) || !absent_or_shaped(call, 2, {*c})) {
    return false;
  }
  call.container = Container::kTuple;
  return call.give_new(input->shape, input->dtype) && call.give_new({*n, *groups}, input->dtype) &&
         call.give_new({*n, *groups}, input->dtype);
}

// input, normalized shape, weight, eps -> (output, rstd)
bool rms_norm(Call& call) {
  const TensorMeta* input = call.tensor(0);
  const auto tail = call.sizes(1);
  if (input == nullptr || !tail || !is_float(input->dtype) || !all_contiguous(call) ||
      !all_of_dtype(call, input->dtype) || !ends_with(input->shape, *tail) ||
      !absent_or_shaped(call, 2, *tail)) {
    return false;
  }
  call.container = Container::kTuple;
  return call.give_new(input->shape, input->dtype) &&
         call.give_new(with_ones(input->shape, tail->size()), wide(input->dtype));
}

// grad, input, normalized shape, rstd, weight, mask
bool rms_norm_backward(Call& call) {
  const TensorMeta *grad = call.tensor(0), *input = call.tensor(1), *rstd = call.tensor(3);
  const auto tail = call.sizes(2);
  if (grad == nullptr || input == nullptr || rstd == nullptr || !tail || !is_float(input->dtype) ||
      grad->dtype != input->dtype || !(grad->shape == input->shape) ||
      rstd->dtype != wide(input->dtype) || !all_contiguous(call) ||
      !ends_with(input->shape, *tail) || !absent_or_shaped(call, 4, *tail) ||
      !(rstd->shape == with_ones(input->shape, tail->size()))) {
    return false;
  }
  if (!call.absent(4) && call.tensor(4)->dtype != input->dtype) return false;
  const auto of_input = wanted(call, 5, 0), of_weight = wanted(call, 5, 1);
  if (!of_input || !of_weight) return false;
  call.container = Container::kTuple;
  return give_if(call, *of_input, *input) &&
         give_if(call, *of_weight && !call.absent(4), {*tail, {}, input->dtype});
}

// input, target, weight, reduction, ignored index -> (loss, total weight)
bool nll_loss(Call& call) {
  const TensorMeta *input = call.tensor(0), *target = call.tensor(1), *weight = call.tensor(2);
  const auto reduction = call.integer(3);
  if (input == nullptr || target == nullptr || !reduction || !is_float(input->dtype) ||
      target->dtype != DType::kInt64 || !all_contiguous(call) || *reduction < 0 || *reduction > 2) {
    return false;
  }
  if (input->ndim() != 2 || target->ndim() != 1 || input->shape[0] != target->shape[0])
    return false;
  if (weight != nullptr &&
      (weight->dtype != input->dtype || !(weight->shape == Dims{input->shape[1]}))) {
    return false;
  }
  call.container = Container::kTuple;
  return call.give_new(*reduction == 0 ? target->shape : Dims{}, input->dtype) &&
         call.give_new({}, input->dtype);
}

// grad, input, target, weight, reduction, ignored index, total weight
bool nll_loss_backward(Call& call) {
  const TensorMeta *grad = call.tensor(0), *input = call.tensor(1), *target = call.tensor(2),
                   *weight = call.tensor(3), *total = call.tensor(6);
  const auto reduction = call.integer(4);
  if (grad == nullptr || input == nullptr || target == nullptr || total == nullptr || !reduction ||
      !is_float(input->dtype) || grad->dtype != input->dtype || total->dtype != input->dtype ||
      target->dtype != DType::kInt64 || !all_contiguous(call) || *reduction < 0 || *reduction > 2) {
    return false;
  }
  if (input->ndim() != 2 || target->ndim() != 1 || input->shape[0] != target->shape[0])
    return false;
  if (total->ndim() != 0 || !(grad->shape == (*reduction == 0 ? target->shape : Dims{}))) {
    return false;
  }
  if (weight != nullptr &&
      (weight->dtype != input->dtype || !(weight->shape == Dims{input->shape[1]}))) {
    return false;
  }
  return call.give_new(input->shape, input->dtype);
}

}  // namespace shardprop
