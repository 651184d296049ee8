#include "notation/notation_scanner.h"

#include "notation/notation.h"
#include "notation/notation_names.h"

namespace shardprop {

void Scanner::skip_blanks() {
  while (next_ < text_.size() && is_space(text_[next_])) ++next_;
}

std::size_t Scanner::position() {
  skip_blanks();
  return next_;
}

char Scanner::peek() {
  skip_blanks();
  return peek_close();
}

char Scanner::peek_close() const { return next_ < text_.size() ? text_[next_] : '\0'; }

bool Scanner::at_end() { return position() == text_.size(); }

bool Scanner::sees(std::string_view symbol) {
  skip_blanks();
  return text_.substr(next_, symbol.size()) == symbol;
}

bool Scanner::take(std::string_view symbol) {
  skip_blanks();
  return take_close(symbol);
}

bool Scanner::take_close(std::string_view symbol) {
  if (text_.substr(next_, symbol.size()) != symbol) return false;
  next_ += symbol.size();
  return true;
}

template <class IsPart>
std::string Scanner::run(IsPart is_part) {
  const std::size_t start = next_;
  while (next_ < text_.size() && is_part(text_[next_])) ++next_;
  return std::string(text_.substr(start, next_ - start));
}

std::string Scanner::name() { return run(is_name_part); }

std::string Scanner::argument() { return run(is_argument_part); }

std::int64_t Scanner::number() {
  constexpr std::size_t kMaxDigits = 9;
  const std::size_t start = next_;
  const std::string digits = run(is_digit);
  if (digits.size() > kMaxDigits) {
    throw NotationError(
        "Expected a number of at most 9 digits, got " + std::to_string(digits.size()) + " digits.",
        start);
  }
  return std::stoll(digits);
}

std::string Scanner::since(std::size_t start) const {
  return std::string(text_.substr(start, next_ - start));
}

std::string Scanner::found_at(std::size_t position) const {
  if (position >= text_.size()) return "the end";
  if (text_[position] == '\n') return "the end of the line";
  std::size_t end = position;
  while (end < text_.size() && is_argument_part(text_[end])) ++end;
  if (end == position) end += text_.substr(position, 2) == "->" ? 2 : 1;
  constexpr std::size_t kMaxShown = 30;
  return '"' + std::string(text_.substr(position, std::min(end - position, kMaxShown))) + '"';
}

void Scanner::expected(const std::string& what) { expected_at(position(), what); }

void Scanner::expected_close(const std::string& what) const { expected_at(next_, what); }

void Scanner::expected_at(std::size_t position, const std::string& what) const {
  throw NotationError("Expected " + what + ", got " + found_at(position) + ".", position);
}

}  // namespace shardprop
