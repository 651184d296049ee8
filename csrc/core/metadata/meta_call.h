// One question for an op's output metadata, as the families of ops see it: its arguments by their
// place in the op's schema, already checked against the schema's types, and where to put outputs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "metadata/tensor_meta.h"

namespace shardprop {

// Bits, so that a slot of a schema can say what it takes.
enum ValueKind : std::uint16_t {
  kNone = 1 << 0,
  kTensor = 1 << 1,
  kTensorList = 1 << 2,
  kBool = 1 << 3,
  kInt = 1 << 4,
  kFloat = 1 << 5,
  kIntList = 1 << 6,
  kDTypeValue = 1 << 7,
  kFormatValue = 1 << 8,
  kLayout = 1 << 9,   // strided; others are declined
  kDevice = 1 << 10,  // any: metadata does not say
  kText = 1 << 11,
  kScalarList = 1 << 12,
  kFalse = 1 << 13,  // a bool that must not be true; as a value it is a kBool
};

enum class Text : std::uint8_t { kNoneWord, kTanh, kTrunc, kFloor };

struct Value {
  ValueKind kind = kNone;
  std::int64_t integer = 0;  // of kBool and kInt; of an enum: its value
  double number = 0;         // of kFloat, and of kInt and kBool too
  std::uint32_t first = 0;   // of a tensor or list: where it begins in the call's pool
  std::uint32_t count = 0;   // of a list
};

enum class Device : std::uint8_t { kCpu, kCuda, kOther };

enum class Container : std::uint8_t { kOne, kTuple, kList };

// What the families read and write. Pools belong to the caller.
struct Call {
  std::span<const Value> values;
  std::span<const TensorMeta> tensors;
  std::span<const std::int64_t> integers;
  std::span<const Value> scalars;
  std::span<const std::int64_t> params;  // the family's, from the table of ops
  DType (*default_dtype)() = nullptr;    // torch.get_default_dtype()
  Device device = Device::kOther;        // known only to ops that say they need it

  Container container = Container::kOne;
  std::vector<std::optional<TensorMeta>> outputs = {};

  [[nodiscard]] int slots() const { return static_cast<int>(values.size()); }
  [[nodiscard]] const Value& at(int slot) const { return values[static_cast<std::size_t>(slot)]; }
  [[nodiscard]] bool absent(int slot) const { return at(slot).kind == kNone; }
  [[nodiscard]] std::int64_t param(int index) const {
    return params[static_cast<std::size_t>(index)];
  }
  // The tensor in a slot; null where there is none.
  [[nodiscard]] const TensorMeta* tensor(int slot) const {
    return at(slot).kind == kTensor ? &tensors[at(slot).first] : nullptr;
  }
  [[nodiscard]] std::span<const TensorMeta> tensor_list(int slot) const {
    const Value& value = at(slot);
    return value.kind == kTensorList ? tensors.subspan(value.first, value.count)
                                     : std::span<const TensorMeta>();
  }
  [[nodiscard]] std::optional<std::int64_t> integer(int slot) const {
    if (at(slot).kind != kInt) return std::nullopt;
    return at(slot).integer;
  }
  [[nodiscard]] std::optional<bool> boolean(int slot) const {
    if (at(slot).kind != kBool) return std::nullopt;
    return at(slot).integer != 0;
  }
  // A list of ints; nothing where there is none.
  [[nodiscard]] std::optional<std::span<const std::int64_t>> int_list(int slot) const {
    const Value& value = at(slot);
    if (value.kind != kIntList) return std::nullopt;
    return integers.subspan(value.first, value.count);
  }
  // Sizes out of a list of ints; nothing where some is negative or there are too many.
  [[nodiscard]] std::optional<Dims> sizes(int slot) const {
    const auto list = int_list(slot);
    if (!list || list->size() > static_cast<std::size_t>(kMaxTensorDims)) return std::nullopt;
    Dims dims;
    for (const auto size : *list) {
      if (size < 0) return std::nullopt;
      dims.push_back(size);
    }
    return dims;
  }
  // The dtype in a slot, or another where the slot is empty.
  [[nodiscard]] DType dtype_or(int slot, DType otherwise) const {
    return at(slot).kind == kDTypeValue ? static_cast<DType>(at(slot).integer) : otherwise;
  }
  [[nodiscard]] Format format_or(int slot, Format otherwise) const {
    return at(slot).kind == kFormatValue ? static_cast<Format>(at(slot).integer) : otherwise;
  }

  // Every family ends with one of these; false declines.
  bool give(TensorMeta meta) {
    outputs.emplace_back(meta);
    return true;
  }
  bool give_new(const Dims& shape, DType dtype) {
    return give({shape, contiguous_strides(shape), dtype});
  }
  bool give_nothing() {
    outputs.emplace_back(std::nullopt);
    return true;
  }
};

// Answers a call, or declines it with false: whatever it is not sure of, and every error, which is
// torch's to word. Outputs of a declined call mean nothing.
using Family = bool (*)(Call&);

// The family of a name, or null.
[[nodiscard]] Family find_family(std::string_view name);

// What a family says of a call of moderate tensors, and declined if one of its outputs is not.
[[nodiscard]] bool answer(Family family, Call& call);

}  // namespace shardprop
