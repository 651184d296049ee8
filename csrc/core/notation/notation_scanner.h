// The characters of a rule, one after the other: what comes next, and where it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardprop {

// Blanks separate what would otherwise run together, and are skipped; but what belongs to a name
// ("@dim", "!", ":max", "{even}") stands close to it: the functions named `_close` skip none.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Of the next character that is no blank.
  [[nodiscard]] std::size_t position();
  [[nodiscard]] std::size_t position_close() const { return next_; }
  // '\0' at the end.
  [[nodiscard]] char peek();
  [[nodiscard]] char peek_close() const;
  [[nodiscard]] bool at_end();
  [[nodiscard]] bool sees(std::string_view symbol);
  bool take(std::string_view symbol);
  bool take_close(std::string_view symbol);

  // The first character has been seen to be right.
  std::string name();
  std::string argument();
  std::int64_t number();
  [[nodiscard]] std::string since(std::size_t start) const;

  // Throws "Expected <what>, got <what is there>."
  [[noreturn]] void expected(const std::string& what);
  [[noreturn]] void expected_close(const std::string& what) const;
  [[noreturn]] void expected_at(std::size_t position, const std::string& what) const;

 private:
  void skip_blanks();
  [[nodiscard]] std::string found_at(std::size_t position) const;
  template <class IsPart>
  std::string run(IsPart is_part);

  std::string_view text_;
  std::size_t next_ = 0;
};

}  // namespace shardprop
