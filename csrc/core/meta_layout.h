// The strides that an elementwise op gives its output, from those of its operands.
#pragma once

#include <optional>
#include <span>

#include "tensor_meta.h"

namespace shardprop {

// torch has the algorithm twice, once in its compiled iterator and once in Python, and they differ
// in what they take a short way with.
enum class Iterator : std::uint8_t { kCompiled, kPython };

// Strides of a new output of `shape`, which the operands broadcast to. Their order counts: the
// first one that tells two dims apart decides. The Python iterator is known only for operands of
// one shape.
[[nodiscard]] std::optional<Dims> elementwise_strides(std::span<const TensorMeta* const> operands,
                                                      const Dims& shape, Iterator iterator);

}  // namespace shardprop
