// Elementwise ops: shapes broadcast, dtypes promote, strides follow the operands.
#include "metadata/meta_families.h"
#include "metadata/meta_layout.h"
#include "metadata/meta_params.h"

namespace shardprop {
namespace {

// The parameters, in their order; python/shardprop/metadata/closed_forms/pointwise.py writes them.
enum Param : int {
  kPromotion,
  kShapeSlots,  // bits: slots that broadcast, a Python number among them as a tensor of no dims
  kDTypeSlots,  // bits: slots whose dtypes promote
  kCategories,  // bits: the kinds of promoted dtype that the op is known for
  kFlags,
  kAlphaSlot,  // a number that must not be of a higher kind than the result; -1: none
};

using namespace pointwise_params;

// torch.result_type, with the operands in the three ranks it knows.
class ResultType {
 public:
  // False for what is declined.
  bool add(const Call& call, int slot) {
    const Value& value = call.at(slot);
    switch (value.kind) {
      case kTensor: {
        const TensorMeta& tensor = *call.tensor(slot);
        into(tensor.ndim() > 0 ? of_dims_ : of_no_dims_, tensor.dtype);
        return true;
      }
      case kBool:
        into(of_numbers_, DType::kBool);
        return true;
      case kInt:
        into(of_numbers_, DType::kInt64);
        return true;
      case kFloat:
        into(of_numbers_, call.default_dtype());
        return true;
      default:
        return value.kind == kNone;
    }
  }

  [[nodiscard]] std::optional<DType> get() const {
    const auto lower = combine(of_no_dims_, of_numbers_);
    if (of_dims_ && lower && is_float(*of_dims_) && is_complex(*lower)) return std::nullopt;
    return combine(of_dims_, lower);
  }

 private:
  static void into(std::optional<DType>& slot, DType dtype) {
    slot = slot ? promote(*slot, dtype) : dtype;
  }
  // The lower rank counts only where it is of a higher kind.
  static std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher) return lower;
    if (!lower || is_complex(*higher) || is_float(*higher)) return higher;
    if (*higher == DType::kBool || !is_integral(*lower)) return promote(*higher, *lower);
    return higher;
  }

  std::optional<DType> of_dims_, of_no_dims_, of_numbers_;
};

bool takes(std::int64_t bits, int slot) { return (bits >> slot) & 1; }

std::optional<DType> common_dtype(const Call& call) {
  ResultType type;
  std::optional<DType> first;
  for (int slot = 0; slot < call.slots(); ++slot) {
    if (!takes(call.param(kDTypeSlots), slot)) continue;
    if (!type.add(call, slot)) return std::nullopt;
    const TensorMeta* tensor = call.tensor(slot);
    if ((call.param(kFlags) & kSameDType) == 0 || tensor == nullptr) continue;
    if (first && *first != tensor->dtype) return std::nullopt;
    first = tensor->dtype;
  }
  return type.get();
}

DType result_dtype(const Call& call, DType common) {
  switch (call.param(kPromotion)) {
    case kToBool:
      return DType::kBool;
    case kIntToFloatUnlessRounded:
      for (int slot = 0; slot < call.slots(); ++slot) {
        if (call.at(slot).kind == kText) return common;
      }
      [[fallthrough]];
    case kIntToFloat:
      return is_integral(common) ? call.default_dtype() : common;
    default:
      return common;
  }
}

bool alpha_fits(const Call& call, DType result) {
  const auto slot = static_cast<int>(call.param(kAlphaSlot));
  if (slot < 0) return true;
  switch (call.at(slot).kind) {
    case kInt:
      return true;
    case kFloat:
      return !is_integral(result);
    case kBool:
      return result == DType::kBool;
    default:
      return false;
  }
}

// clamp and its like, which refuse to have nothing to do.
bool has_limit(const Call& call) {
  for (int slot = 1; slot < call.slots(); ++slot) {
    if (!call.absent(slot)) return true;
  }
  return false;
}

bool are_row_major(std::span<const TensorMeta* const> operands) {
  return std::all_of(operands.begin(), operands.end(), [](const TensorMeta* operand) {
    return (is_row_major(*operand) && numel(operand->shape) > 0) || is_one_repeated(*operand);
  });
}

// Operands whose layouts every step of a decomposition keeps: all row-major, or all alike.
bool are_uniform(std::span<const TensorMeta* const> operands) {
  if (are_row_major(operands)) return true;
  const TensorMeta* whole = nullptr;
  for (const TensorMeta* operand : operands) {
    if (operand->ndim() == 0) continue;
    if (whole == nullptr) whole = operand;
    if (operand->shape != whole->shape || operand->stride != whole->stride) return false;
  }
  return whole != nullptr && numel(whole->shape) > 0 &&
         settled_like_strides(*whole) == whole->stride;
}

}  // namespace

bool pointwise(Call& call) {
  const auto flags = static_cast<unsigned>(call.param(kFlags));
  const auto common = common_dtype(call);
  if (!common || (category(*common) & static_cast<unsigned>(call.param(kCategories))) == 0) {
    return false;
  }
  const DType dtype = result_dtype(call, *common);
  if (!alpha_fits(call, dtype)) return false;

  std::array<const TensorMeta*, kMostOperands> operands;
  std::size_t count = 0;
  std::array<TensorMeta, 4> numbers;  // Python numbers, as tensors of no dims
  std::size_t number_count = 0;
  Dims shape;
  for (int slot = 0; slot < call.slots(); ++slot) {
    if (!takes(call.param(kShapeSlots), slot) || call.absent(slot)) continue;
    if (count == operands.size()) return false;
    const TensorMeta* tensor = call.tensor(slot);
    if (tensor == nullptr) {
      if (number_count == numbers.size()) return false;
      tensor = &numbers[number_count++];
    }
    operands[count++] = tensor;
    const auto wider = broadcast(shape, tensor->shape);
    if (!wider) return false;
    shape = *wider;
  }
  if (count == 0 || count == number_count) return false;
  if ((flags & kLimited) != 0 && !has_limit(call)) return false;
  if ((flags & kNoDims) != 0 && operands[1]->ndim() != 0) return false;
  if ((flags & kBoolSecond) != 0 && (count < 2 || operands[1]->dtype != DType::kBool)) return false;
  if ((flags & kRowMajor) != 0 && !are_row_major({operands.data(), count})) return false;
  if ((flags & kBoolFirst) != 0 && operands[0]->dtype != DType::kBool) return false;
  if ((flags & kUniform) != 0 && !are_uniform({operands.data(), count})) return false;
  if ((flags & kInPlace) != 0) {
    const TensorMeta* self = call.tensor(0);
    if (self == nullptr || !(self->shape == shape) || is_expanded(*self)) return false;
    if ((flags & kAnyCast) == 0 && !can_cast(dtype, self->dtype)) return false;
    return call.give(*self);
  }
  if ((flags & kBackwards) != 0) std::reverse(operands.begin(), operands.begin() + count);
  const auto strides = elementwise_strides({operands.data(), count}, shape);
  return strides && call.give({shape, *strides, dtype});
}

}  // namespace shardprop
