// Scaled dot-product attention, by the kernels that torch chooses among. Queries, keys and values
// have dims (batch, heads, length, width); other numbers of heads or widths are declined.
#include "metadata/meta_families.h"

namespace shardprop {
namespace {

// Queries, keys and values in three slots from `first` on: of one dtype and fit for each other.
bool are_operands(const Call& call, int first) {
  const TensorMeta *q = call.tensor(first), *k = call.tensor(first + 1),
                   *v = call.tensor(first + 2);
  if (q == nullptr || k == nullptr || v == nullptr || q->ndim() != 4 || k->ndim() != 4 ||
      !is_float(q->dtype) || k->dtype != q->dtype || v->dtype != q->dtype) {
    return false;
  }
  if (numel(q->shape) == 0 || numel(k->shape) == 0 || k->shape != v->shape) return false;
  return q->shape[0] == k->shape[0] && q->shape[1] == k->shape[1] && q->shape[3] == k->shape[3];
}

bool give_like(Call& call, const TensorMeta& tensor) {
  const auto strides = settled_like_strides(tensor);
  return strides && call.give({tensor.shape, *strides, tensor.dtype});
}

// With the heads inside of the length, as the kernels lay them out.
bool give_heads_inside(Call& call, const TensorMeta& tensor) {
  const auto heads = tensor.shape[1], length = tensor.shape[2], width = tensor.shape[3];
  const Dims stride{length * heads * width, width, heads * width, 1};
  return call.give({tensor.shape, stride, tensor.dtype});
}

Dims without_width(const TensorMeta& q) { return {q.shape[0], q.shape[1], q.shape[2]}; }

}  // namespace

// q, k, v, dropout, causal, debug mask, scale -> (out, logsumexp, two absent, two ints, seed,
// offset, debug mask)
bool flash_attention(Call& call) {
  if (!are_operands(call, 0) || call.boolean(5) != false) return false;
  if (call.device == Device::kOther) return false;
  const TensorMeta& q = *call.tensor(0);
  call.container = Container::kTuple;
  if (!give_like(call, q)) return false;
  call.give_new(without_width(q), DType::kFloat);
  for (int i = 0; i < 4; ++i) call.give_nothing();
  call.give_new({2}, DType::kUInt64);
  call.give_new({}, DType::kUInt64);
  return call.give_new({0}, q.dtype);
}

// grad, q, k, v, ...
bool flash_attention_backward(Call& call) {
  if (call.tensor(0) == nullptr || !are_operands(call, 1)) return false;
  call.container = Container::kTuple;
  return give_like(call, *call.tensor(1)) && give_like(call, *call.tensor(2)) &&
         give_like(call, *call.tensor(3));
}

// q, k, v, bias, whether to give the logsumexp, ... -> (out, logsumexp, seed, offset)
bool efficient_attention(Call& call) {
  const auto with_sum = call.boolean(4);
  if (!are_operands(call, 0) || !with_sum) return false;
  const TensorMeta& q = *call.tensor(0);
  constexpr std::int64_t kBlock = 32;  // rows of the logsumexp come in blocks
  const auto rows = *with_sum ? (q.shape[2] + kBlock - 1) / kBlock * kBlock : 0;
  call.container = Container::kTuple;
  return give_heads_inside(call, q) &&
         call.give_new({q.shape[0], q.shape[1], rows}, DType::kFloat) &&
         call.give_new({}, DType::kInt64) && call.give_new({}, DType::kInt64);
}

// grad, q, k, v, bias, ...; parameter 0: the slot of the bias, whose gradient is not given.
bool heads_inside_backward(Call& call) {
  const auto bias = static_cast<int>(call.param(0));
  if (call.tensor(0) == nullptr || !are_operands(call, 1)) return false;
  if (bias >= 0 && !call.absent(bias)) return false;
  call.container = Container::kTuple;
  for (int slot = 1; slot <= 3; ++slot) give_heads_inside(call, *call.tensor(slot));
  return bias < 0 || call.give_nothing();
}

// q, k, v, ... -> (out, logsumexp)
bool cpu_attention(Call& call) {
  if (!are_operands(call, 0)) return false;
  const TensorMeta& q = *call.tensor(0);
  const auto heads = q.shape[1], length = q.shape[2];
  call.container = Container::kTuple;
  return give_like(call, q) &&
         call.give({without_width(q),
                    {length * heads, 1, heads},
                    q.dtype == DType::kDouble ? DType::kDouble : DType::kFloat});
}

}  // namespace shardprop
