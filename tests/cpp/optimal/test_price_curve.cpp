#include "check.h"
#include "optimal/price_curve.h"
#include "random_layouts.h"

using namespace shardprop;

namespace {

const PriceCurve& saw() {
  static const PriceCurve curve({{0.0, 1.0, 1.0}, {4.0, 0.0, 0.5}, {8.0, 10.0, 0.0}});
  return curve;
}

}  // namespace

TEST(a_piece_holds_from_its_bytes_on) {
  CHECK_EQ(saw().at(0.0), 1.0);
  CHECK_EQ(saw().at(3.5), 4.5);
  CHECK_EQ(saw().at(4.0), 2.0);
  CHECK_EQ(saw().at(8.0), 10.0);
  CHECK_EQ(saw().at(1e12), 10.0);
}

TEST(the_least_of_more_bytes_looks_past_a_fall) {
  CHECK_EQ(saw().least_from(0.0), 1.0);
  CHECK_EQ(saw().least_from(3.5), 2.0);
  CHECK_EQ(saw().least_from(6.0), 3.0);
  CHECK_EQ(saw().least_from(9.0), 10.0);
}

TEST(one_line_is_its_own_least) {
  const PriceCurve line(2.0, 0.25);
  CHECK_EQ(line.at(4.0), 3.0);
  CHECK_EQ(line.least_from(4.0), 3.0);
}

TEST(no_price_of_as_many_bytes_or_more_is_below_the_least) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    const CostModel model = testing::random_model(random, {4}, 0);
    for (const PriceCurve& curve : model.groups[0].prices) {
      for (double low = 0.0; low < 4096.0; low += 97.5) {
        double least = curve.at(low);
        for (double more = low; more < 12288.0; more += 0.5) {
          least = std::min(least, curve.at(more));
        }
        CHECK_EQ(curve.least_from(low), least);
      }
    }
  }
}
