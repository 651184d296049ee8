// What has to be guarded for a strategy to stay the cheapest while symbolic sizes change.
//
// A price is a line over the bytes of each operand: a latency, and a share per byte. So only those
// strategies can ever beat the chosen one that have the lower latency or the smaller share. Where
// all symbolic sizes enter as one product, their lines cross that of the chosen one at two products
// that matter: the first one above the product of now, and the first one below.
//
// Worked example: at 64 tokens it is cheapest to gather the activation, 14.7 us and 0.16 us per
// token, and the weight costs 30.6 us to gather, whatever the tokens. The guard is tokens <= 99.
#pragma once

#include <span>

#include "search/linear_price.h"
#include "search/problem.h"
#include "search/symbolic.h"

namespace shardprop {

struct PricedRows {
  Rows rows;
  double cost;
};

// Tells `problem.sizes` what keeps `chosen` the cheapest of `all`, which are in torch's order.
// Those that cost the same but for rounding are not compared.
void guard_price(const Problem& problem, std::span<const PricedRows> all, const Strategy& chosen);

}  // namespace shardprop
