#include "graph/solve.h"

#include <algorithm>
#include <cmath>

#include "graph/index.h"
#include "graph/search/search.h"

namespace shardprop::graph {
namespace {

std::vector<int> label_counts(const Problem& problem) {
  std::vector<int> counts;
  for (const auto& unary : problem.unaries) counts.push_back(static_cast<int>(unary.size()));
  return counts;
}

void check_warm(const Problem& problem, const WarmState& warm) {
  if (warm.label_counts != label_counts(problem) || warm.edges != problem.edges.size()) {
    throw ProblemError(
        "Expected a warm state of a problem with the same nodes, labels and edges, got another.");
  }
}

// Labels of nodes as labels of variables: the one that agrees at most of a variable's nodes.
std::vector<int> contract(const Model& model, const std::vector<std::int32_t>& labels) {
  std::vector<std::vector<int>> votes(at(model.variables()));
  for (int v = 0; v < model.variables(); ++v) votes[at(v)].assign(at(model.labels(v)), 0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    auto& vote = votes[at(model.variable_of[i])];
    for (std::size_t l = 0; l < vote.size(); ++l) vote[l] += model.node_labels[i][l] == labels[i];
  }
  std::vector<int> chosen;
  for (const auto& vote : votes) {
    chosen.push_back(static_cast<int>(std::max_element(vote.begin(), vote.end()) - vote.begin()));
  }
  return chosen;
}

void warm_up(const Model& model, const WarmState& warm, std::size_t rows, Search& search) {
  if (!warm.labels.empty()) search.suggest(contract(model, warm.labels));
  if (warm.multipliers.size() != rows) return;
  Multipliers multipliers;
  for (const Side& side : model.sides) {
    const auto& [upper, lower] = warm.multipliers[at(side.row)];
    multipliers.push_back(side.upper ? upper : lower);
  }
  search.start_from(std::move(multipliers));
}

std::shared_ptr<WarmState> state_of(const Problem& problem) {
  auto state = std::make_shared<WarmState>();
  state->label_counts = label_counts(problem);
  state->edges = problem.edges.size();
  state->rows = problem.rows.size();
  state->multipliers.resize(problem.rows.size(), {0.0, 0.0});
  return state;
}

// Status, objective and bound of what the search has found.
void judge(const Problem& problem, const Model& model, const Search& search, Answer& answer) {
  if (!search.found()) {
    answer.proved = search.bound() == kInfinity;
    answer.status = answer.proved ? Answer::Status::kInfeasible : Answer::Status::kUnknown;
    answer.lower_bound = search.bound();
    return;
  }
  answer.labels = model.expand(search.best());
  answer.objective = problem.objective(answer.labels);
  answer.lower_bound = std::min(search.bound(), answer.objective);
  answer.proved = answer.objective - answer.lower_bound <=
                  1e-9 * std::max(model.scale(), std::abs(answer.objective));
  answer.status = answer.proved ? Answer::Status::kOptimal : Answer::Status::kFeasible;
}

void search_model(const Problem& problem, const Model& model, const Options& options,
                  Ticker& ticker, WarmState& state, Answer& answer) {
  Search search(model, options, ticker);
  if (options.warm != nullptr) warm_up(model, *options.warm, problem.rows.size(), search);
  search.run();
  answer.iterations = search.iterations;
  answer.fixed += search.removed;
  answer.width = search.width;
  answer.nodes = search.nodes;
  judge(problem, model, search, answer);
  state.labels = answer.labels;
  for (std::size_t s = 0; s < model.sides.size(); ++s) {
    auto& [upper, lower] = state.multipliers[at(model.sides[s].row)];
    (model.sides[s].upper ? upper : lower) = search.multipliers()[s];
  }
}

}  // namespace

Answer solve(const Problem& problem, const Options& options) {
  if (options.warm != nullptr) check_warm(problem, *options.warm);
  Ticker ticker(options);
  Answer answer;
  auto state = state_of(problem);
  Clusters clusters(problem);
  std::optional<std::vector<Side>> sides;
  const Interrupt interrupt = [&ticker] { return ticker.tick(0, -kInfinity, kInfinity); };
  if (clusters.reduce(interrupt)) sides = clusters.sides();
  if (sides) {
    const Model model = build_model(problem, clusters, std::move(*sides), interrupt);
    for (const auto& unary : problem.unaries) answer.fixed += static_cast<int>(unary.size());
    for (const auto& labels : model.node_labels) answer.fixed -= static_cast<int>(labels.size());
    search_model(problem, model, options, ticker, *state, answer);
  } else {
    answer.status = Answer::Status::kInfeasible;
    answer.lower_bound = kInfinity;
    answer.proved = true;
  }
  answer.state = std::move(state);
  answer.seconds = ticker.seconds();
  return answer;
}

}  // namespace shardprop::graph
