// What the dims of tensors are to a pattern: which of them are cut together.
//
// For "*m k, *k n -> m n" and shapes (4, 8), (8, 2): three axes, of sizes 4, 8 and 2; the first
// tensor's dims are axes 0 and 1. A factor is one axis, or several where it is written "...",
// "k@dim" or "n#shape". Rows are made of this in notation_rows.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "notation/notation.h"

namespace shardprop {

// A size, or an expression if below 0: equal numbers are equal expressions.
using NotedSize = std::int64_t;
using NotedShape = std::vector<NotedSize>;

// What is asked of a size that is an expression cannot be told without its value.
struct NeedsSize : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The value of an argument that a place names; a number that is an expression is kUnread.
inline constexpr std::int64_t kUnread = INT64_MIN;
struct NotedArgument {
  enum class Kind : std::uint8_t { kNone, kNumber, kNumbers } kind = Kind::kNone;
  std::vector<std::int64_t> numbers;
};

// The tensors of one term: one, none where an optional one is not given, or those of a list.
// An output that the op does not make is there without a shape.
using NotedTensors = std::vector<std::optional<NotedShape>>;

struct NotedCall {
  std::vector<NotedTensors> operands;
  std::optional<std::vector<NotedTensors>> outputs;  // where they are known
  std::vector<NotedArgument> arguments;              // as Pattern::arguments
  bool keepdim = false;
  bool no_outputs = false;  // the op returns no tensor
};

// Says which tensor does not fit; `tensor` counts the operands of the pattern, then the outputs.
struct FitError : NotationError {
  FitError(const std::string& message, int at_term, std::optional<int> at_element)
      : NotationError(message), term(at_term), element(at_element) {}

  int term;
  std::optional<int> element;  // of a list
};

struct Axis {
  int factor = 0;
  std::optional<NotedSize> size;
  bool differs = false;  // tensors disagree about the size, of a factor that allows them to
  int source = -1;       // the tensor that has given the size
};

struct FittedTensor {
  int term = 0;
  std::optional<int> element;
  bool is_absent = false;              // an output that the op does not make
  std::optional<NotedShape> shape;     // not known of an output, mostly
  std::vector<std::vector<int>> dims;  // per dim its axes, outermost first; none if always whole
};

struct Fit {
  std::vector<Axis> axes;
  std::vector<int> order;  // of the axes, as they are to be cut
  std::vector<FittedTensor> operands, outputs;
};

// Throws FitError, NotationError (an argument that does not fit) and NeedsSize.
[[nodiscard]] Fit fit(const Pattern& pattern, const NotedCall& call);

// "4", or "an expression"; "(4, 8)".
[[nodiscard]] std::string to_text(NotedSize size);
[[nodiscard]] std::string to_text(const NotedShape& shape);

}  // namespace shardprop
