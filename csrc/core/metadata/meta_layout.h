// The strides that an elementwise op gives its output, from those of its operands.
#pragma once

#include <optional>
#include <span>

#include "metadata/tensor_meta.h"

namespace shardprop {

inline constexpr std::size_t kMostOperands = 8;

// Strides of a new output of `shape`, which the operands broadcast to. Their order counts: the
// first one that tells two dims apart decides.
//
// torch has the algorithm twice, in its compiled iterator and in Python, and which ops go by which
// differs between versions; by the latter, operands of other dtypes are first copied. All of these
// agree on any layout that a program has reason to make. Where they do not (dims of size 1 or 0
// with odd strides, mostly) there is no answer.
[[nodiscard]] std::optional<Dims> elementwise_strides(std::span<const TensorMeta* const> operands,
                                                      const Dims& shape);

}  // namespace shardprop
