#include "search/line.h"

#include <algorithm>

namespace shardprop {

bool is_never_cheaper(const Line& a, const Line& b, double slack) {
  if (a.fixed < b.fixed - slack) return false;
  for (std::size_t g = 0; g < a.growing.size(); ++g) {
    if (a.growing[g] < b.growing[g] - slack) return false;
  }
  return true;
}

std::vector<Rival> undominated(const std::vector<Rival>& rivals) {
  std::vector<Rival> front;
  const auto covers = [](const Rival& a, const Rival& b) {
    return is_never_cheaper(b.line, a.line, 0.0);
  };
  for (const Rival& rival : rivals) {
    if (std::any_of(front.begin(), front.end(), [&](const Rival& r) { return covers(r, rival); })) {
      continue;
    }
    std::erase_if(front, [&](const Rival& r) { return covers(rival, r); });
    front.push_back(rival);
  }
  return front;
}

}  // namespace shardprop
