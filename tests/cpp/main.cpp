#include <iostream>

#include "check.h"

// Runs all tests, or those whose name contains the first argument.
int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  int ran = 0, failed = 0;
  for (const auto& test : check::tests()) {
    if (test.name.find(wanted) == std::string::npos) continue;
    const int before = check::failures();
    test.body();
    ++ran;
    const bool ok = check::failures() == before;
    failed += !ok;
    std::cout << (ok ? "ok    " : "FAILED ") << test.name << '\n';
  }
  std::cout << ran - failed << " passed, " << failed << " failed\n";
  return ran == 0 || failed > 0;
}
