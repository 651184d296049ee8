#include "search/linear_price.h"

#include <algorithm>

namespace shardprop {

bool is_never_cheaper(const LinearPrice& a, const LinearPrice& b, double slack) {
  if (a.fixed < b.fixed - slack) return false;
  for (std::size_t g = 0; g < a.growing.size(); ++g) {
    if (a.growing[g] < b.growing[g] - slack) return false;
  }
  return true;
}

std::vector<Alternative> undominated(const std::vector<Alternative>& alternatives) {
  std::vector<Alternative> front;
  const auto covers = [](const Alternative& a, const Alternative& b) {
    return is_never_cheaper(b.line, a.line, 0.0);
  };
  for (const Alternative& alternative : alternatives) {
    if (std::any_of(front.begin(), front.end(),
                    [&](const Alternative& r) { return covers(r, alternative); })) {
      continue;
    }
    std::erase_if(front, [&](const Alternative& r) { return covers(alternative, r); });
    front.push_back(alternative);
  }
  return front;
}

}  // namespace shardprop
