#include <limits>

#include "check.h"
#include "optimal/cost_model.h"
#include "random_layouts.h"

using namespace shardprop;

namespace {

CostModel small_model() {
  std::mt19937_64 random(1);
  return testing::random_model(random, {2, 1, 4}, 100);
}

std::string fault_of(const CostModel& model) {
  try {
    validate_cost_model(model);
  } catch (const CostError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(a_price_counts_picoseconds_first_and_collectives_second) {
  CHECK(price_of(5, 0) < price_of(5, 1));
  CHECK(price_of(5, 9) < price_of(6, 0));
  CHECK_EQ(picoseconds(price_of(7, 3)), 7);
  CHECK_EQ(collectives(price_of(7, 3) + price_of(1, 2)), 5);
  CHECK_EQ(add(kNoPrice, kNoPrice), kNoPrice);
  CHECK_EQ(add(kNoPrice - 1, 1), kNoPrice);
}

TEST(prices_are_rounded_to_the_nearest_picosecond) {
  CostModel model = small_model();
  model.groups[0].prices[0] = {1.0, 0.5e-6};
  CHECK_EQ(model.communication(Collective::kAllGather, model.groups[0], 1.0), 1'000'001);
  CHECK_EQ(model.communication(Collective::kAllGather, model.groups[0], 2.0), 1'000'001);
}

TEST(a_sound_model_passes) { CHECK_EQ(fault_of(small_model()), ""); }

TEST(faults_of_a_model_are_named_by_their_place) {
  CostModel model = small_model();
  model.groups[1].prices[2] = {1.0, -1.0};
  CHECK_EQ(fault_of(model).rfind("groups[1].all_reduce.us_per_byte", 0), 0u);
  for (const std::vector<PricePiece>& pieces :
       {std::vector<PricePiece>{{1.0, 1.0, 1.0}}, {{0.0, 1.0, 1.0}, {0.0, 2.0, 1.0}}}) {
    model = small_model();
    model.groups[1].prices[2] = PriceCurve(pieces);
    CHECK_EQ(fault_of(model).rfind("groups[1].all_reduce.from_bytes: Expected 0 first", 0), 0u);
  }
  model = small_model();
  model.kernel_us = std::numeric_limits<double>::quiet_NaN();
  CHECK_EQ(fault_of(model).rfind("kernel_us", 0), 0u);
  model = small_model();
  model.groups.erase(model.groups.begin());
  CHECK_EQ(fault_of(model).rfind("groups: Expected one for mesh dim 0", 0), 0u);
  model = small_model();
  model.groups.push_back(model.groups[0]);
  CHECK_EQ(fault_of(model).rfind("groups[3]: Expected each group once", 0), 0u);
  model = small_model();
  model.groups[2].mesh_dims = {2, 0};
  CHECK_EQ(fault_of(model).rfind("groups[2]: Expected ascending mesh dims", 0), 0u);
  model = small_model();
  model.size[1] = 0;
  CHECK_EQ(fault_of(model).rfind("sizes[1]", 0), 0u);
}

TEST(a_callback_that_gives_no_price_is_to_blame) {
  CostModel model = small_model();
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    model.callback = [bad](Collective, const Group&, double) { return bad; };
    CHECK_THROWS(model.communication(Collective::kPermute, model.groups[0], 1.0), CostError);
  }
}
