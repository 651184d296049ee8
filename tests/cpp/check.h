// The least a C++ test needs. No C++ test framework is on PyPI, and `pytest` must be enough to run
// these, so this stands in for one: TEST registers, CHECK and CHECK_EQ count and report.
#pragma once

#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace check {

struct Test {
  std::string name;
  std::function<void()> body;
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}
inline int& failures() {
  static int count = 0;
  return count;
}
inline bool add(std::string name, std::function<void()> body) {
  tests().push_back({std::move(name), std::move(body)});
  return true;
}
inline void report(bool ok, const char* file, int line, const std::string& what) {
  if (ok) return;
  ++failures();
  std::cerr << file << ':' << line << ": " << what << '\n';
}

}  // namespace check

#define TEST(name)                                                           \
  static void name();                                                        \
  [[maybe_unused]] static const bool added_##name = check::add(#name, name); \
  static void name()
#define CHECK(condition) check::report((condition), __FILE__, __LINE__, "CHECK(" #condition ")")
#define CHECK_EQ(left, right) \
  check::report((left) == (right), __FILE__, __LINE__, "CHECK_EQ(" #left ", " #right ")")
#define CHECK_THROWS(expression, type)                                                     \
  do {                                                                                     \
    bool thrown = false;                                                                   \
    try {                                                                                  \
      (void)(expression);                                                                  \
    } catch (const type&) {                                                                \
      thrown = true;                                                                       \
    }                                                                                      \
    check::report(thrown, __FILE__, __LINE__, "CHECK_THROWS(" #expression ", " #type ")"); \
  } while (false)
