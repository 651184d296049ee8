// Words and characters of the notation.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "layout/placement.h"

namespace shardprop {

// In the order of ReduceOp.
inline constexpr std::array<std::string_view, kFirstUnknownOp> kReduceNames = {
    "sum", "avg", "product", "min", "max", "band", "bor", "bxor"};

inline constexpr int kMaxNotationDims = 64;  // as many as torch's tensors may have

[[nodiscard]] inline std::string reduce_names() {
  std::string names;
  for (const std::string_view name : kReduceNames) names.append(names.empty() ? "" : ", ") += name;
  return names;
}

// Not <cctype>: what a letter is must not depend on the locale.
[[nodiscard]] inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
[[nodiscard]] inline bool is_name_start(char c) { return c >= 'a' && c <= 'z'; }
[[nodiscard]] inline bool is_name_part(char c) {
  return is_name_start(c) || is_digit(c) || c == '_';
}
[[nodiscard]] inline bool is_argument_start(char c) {
  return is_name_start(c) || (c >= 'A' && c <= 'Z') || c == '_';
}
[[nodiscard]] inline bool is_argument_part(char c) { return is_argument_start(c) || is_digit(c); }
[[nodiscard]] inline bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace shardprop
