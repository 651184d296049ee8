// What an op's output is made of: shape, stride and dtype of a strided tensor, and torch's
// arithmetic on them. A number of dims or a dtype that is not here is nobody's to guess: the
// question is declined.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

namespace shardprop {

inline constexpr int kMaxTensorDims = 12;

// Sizes or strides; a list with room for kMaxTensorDims.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) {
    for (const auto value : values) push_back(value);
  }
  // `count` times the same.
  static Dims filled(int count, std::int64_t value) {
    Dims dims;
    for (int d = 0; d < count; ++d) dims.push_back(value);
    return dims;
  }

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool full() const { return size_ == kMaxTensorDims; }
  void push_back(std::int64_t value) { values_[static_cast<std::size_t>(size_++)] = value; }
  void insert(int at, std::int64_t value) {
    push_back(value);
    for (int d = size_ - 1; d > at; --d) (*this)[d] = (*this)[d - 1];
    (*this)[at] = value;
  }
  void erase(int at) {
    for (int d = at; d + 1 < size_; ++d) (*this)[d] = (*this)[d + 1];
    --size_;
  }

  std::int64_t& operator[](int d) { return values_[static_cast<std::size_t>(d)]; }
  std::int64_t operator[](int d) const { return values_[static_cast<std::size_t>(d)]; }
  [[nodiscard]] const std::int64_t* begin() const { return values_.data(); }
  [[nodiscard]] const std::int64_t* end() const { return values_.data() + size_; }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (int d = 0; d < a.size_; ++d) {
      if (a[d] != b[d]) return false;
    }
    return true;
  }

 private:
  int size_ = 0;
  std::array<std::int64_t, kMaxTensorDims> values_;
};

enum class DType : std::uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kHalf,
  kBFloat16,
  kFloat,
  kDouble,
  kComplexFloat,
  kComplexDouble,
  kUInt64,  // of outputs only: operands of it are declined
};
inline constexpr int kOperandDTypes = 12;
inline constexpr int kDTypes = 13;
// As torch calls them, in the order above.
inline constexpr std::array<const char*, kDTypes> kDTypeNames = {
    "bool",     "uint8",   "int8",    "int16",     "int32",      "int64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128", "uint64"};

[[nodiscard]] inline bool is_complex(DType dtype) {
  return dtype == DType::kComplexFloat || dtype == DType::kComplexDouble;
}
[[nodiscard]] inline bool is_float(DType dtype) {
  return dtype >= DType::kHalf && dtype <= DType::kDouble;
}
[[nodiscard]] inline bool is_integral(DType dtype) { return dtype < DType::kHalf; }  // bool too

// Bits, so that a table can say which kinds of numbers an op is known for.
enum Category : unsigned { kBools = 1, kInts = 2, kFloats = 4, kComplexes = 8 };
[[nodiscard]] unsigned category(DType dtype);

// torch.promote_types.
[[nodiscard]] DType promote(DType a, DType b);
// May a result of `from` be written into a tensor of `to`?
[[nodiscard]] bool can_cast(DType from, DType to);

struct TensorMeta {
  Dims shape, stride;
  DType dtype = DType::kFloat;

  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
  [[nodiscard]] int ndim() const { return shape.size(); }
};

// Products of sizes wrap; an answer counts only if all its tensors are moderate.
[[nodiscard]] inline std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
// No more elements, in no wider a storage, than have addresses; for more torch raises.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 53;
[[nodiscard]] bool is_moderate(const TensorMeta& tensor);

[[nodiscard]] std::int64_t numel(const Dims& shape);
[[nodiscard]] Dims contiguous_strides(const Dims& shape);
// Strides of channels_last (4 dims) or channels_last_3d (5 dims).
[[nodiscard]] Dims channels_last_strides(const Dims& shape);

// Whether the elements lie row-major without gaps; dims of size 1 may have any stride, and a tensor
// without elements always does.
[[nodiscard]] bool is_contiguous(const TensorMeta& tensor);
// The same for channels_last, of 4 or of 5 dims; without the exception for no elements.
[[nodiscard]] bool is_channels_last_contiguous(const TensorMeta& tensor);
// No gaps and no overlap, in some order of the dims.
[[nodiscard]] bool is_dense(const TensorMeta& tensor);
// Does some element surely stand for several (an expanded dim)?
[[nodiscard]] bool is_expanded(const TensorMeta& tensor);

// Is one element repeated along every dim, as the gradient of a sum is? Such a tensor says nothing
// about an order of dims.
[[nodiscard]] bool is_one_repeated(const TensorMeta& tensor);
// Exactly row-major, also in dims of size 1.
[[nodiscard]] bool is_row_major(const TensorMeta& tensor);

enum class Format : std::uint8_t { kContiguous, kPreserve, kChannelsLast, kChannelsLast3d };
// As torch calls them, in the order above.
inline constexpr std::array<const char*, 4> kFormatNames = {"contiguous_format", "preserve_format",
                                                            "channels_last", "channels_last_3d"};
// The format that strides look most like (Tensor.suggest_memory_format); never kPreserve.
[[nodiscard]] Format suggested_format(const TensorMeta& tensor);
// Strides of a new tensor in a format; none where the number of dims does not fit it.
[[nodiscard]] std::optional<Dims> format_strides(const Dims& shape, Format format);

// Dense strides with the dims in the order of a tensor's strides: what empty_like gives a tensor
// that is not dense.
[[nodiscard]] Dims dense_strides_like(const TensorMeta& tensor);
// Strides of empty_like.
[[nodiscard]] Dims like_strides(const TensorMeta& tensor);

// The same, where every way that torch takes to them agrees: without elements, and in dims of size
// 1, layouts may change from step to step.
[[nodiscard]] std::optional<Dims> settled_like_strides(const TensorMeta& tensor);

// The shape that two broadcast to, or none.
[[nodiscard]] std::optional<Dims> broadcast(const Dims& a, const Dims& b);

// A dim counted from the front, or none where it is out of range; a tensor of no dims has dim 0.
[[nodiscard]] std::optional<int> wrap_dim(std::int64_t dim, int ndim);

// Strides of a view of another shape over the same elements, or none where that takes a copy.
[[nodiscard]] std::optional<Dims> view_strides(const TensorMeta& tensor, const Dims& shape);

}  // namespace shardprop
