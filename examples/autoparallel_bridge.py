"""AutoParallel (github.com/meta-pytorch/autoparallel, a54c252) on our strategies and our solver.

Its trace, constraints, prices and own rules stay; docs/strategies.md says what is gained.
"""

from operator import getitem
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pulp
import torch
from autoparallel import api, optimize_sharding
from autoparallel.cost_models.collective_runtime_estimation import estimate_strategy_comms_cost
from autoparallel.cost_models.compute_estimation import estimate_strategy_runtime_cost
from autoparallel.shardings import placement_options, propagation_rules
from torch._functorch._aot_autograd.fx_utils import get_param_nodes

import shardprop

EINSUM, ITS = torch.ops.aten.einsum.default, propagation_rules
shardprop.register_single_dim_rule(EINSUM, override=True)(ITS._einsum_single_dim_strategy)


def strategies(mesh, node, specs, args, kwargs):
    """A node's strategies: by AutoParallel's rule where it has one of its own, else by ours."""
    op = node.target
    if not isinstance(op, torch._ops.OpOverload) or (op in ITS._op_rules and op is not EINSUM):
        return placement_options.get_placement_options_for_node(mesh, node, specs, args, kwargs)
    return shardprop.to_op_strategy(
        shardprop.strategies(op, specs, kwargs, mesh=mesh, strided=False, rules="torch")
    )


def price(src, dst):
    """Microseconds, and one for a change, by which AutoParallel breaks ties."""
    return estimate_strategy_comms_cost(src, dst) + (src.placements != dst.placements)


class Optimizer(optimize_sharding.ShardingOptimizer):
    """AutoParallel's, on a `shardprop.graph.Problem`; logs and comparisons do not work."""

    def build_sharding_metadata(self):
        with (
            patch.object(
                ITS, "generate_redistribute_costs", lambda a, _: [0.0] * len(a.strategies)
            ),
            patch.object(optimize_sharding, "get_placement_options_for_node", strategies),
        ):
            return super().build_sharding_metadata()

    def _build_decision_vars(self):
        self.problem, layouts = shardprop.graph.Problem(), shardprop.LayoutTable()
        self.found, self.pulp_variables, moves = {}, {}, {}
        for i, node in enumerate(n for n in self.nodes if n.op != "output"):
            read, ways = self._all_input_nodes(node), self.strats[node]
            sources = [self.strats[p] for p in read]
            if node.target is getitem:
                sources = [(sources[0], node.args[1])]
            found = self.found[node] = shardprop.from_op_strategy(
                node.target, ways, sources=sources or None, prices=price, layouts=layouts
            )
            first, kind = found.by_local_shapes()
            costs = [estimate_strategy_runtime_cost(node, ways.strategies[k]) for k in first]
            self.problem.add_node(node.name, np.array(costs)[kind])
            for k, producer in enumerate(read):
                table, which = found.price_table(k), found.wanted(k)[1]
                self.problem.add_edge(producer.name, node.name, table.T, v_classes=which)
                moves[i, k, 0, 0] = SimpleNamespace(var=pulp.LpVariable(f"{i}_{k}"), comm_cost=1)
        return moves

    def add_default_constraints(self):
        self.add_forward_backward_consistency_constraints()
        self.add_grad_reduce_dtype_constraints()  # forbids moves
        for row in self.prob.constraints.values():
            i, k = map(int, next(iter(row)).name.split("_"))
            found = self.found[self.nodes[i]]
            never = np.where(found.price_table(k)[found.wanted(k)[1]] > 1, np.inf, 0.0)
            producer = self._all_input_nodes(self.nodes[i])[k]
            self.problem.add_edge(producer.name, self.nodes[i].name, never.T)

    def _add_node_constraint(self, node, output_constraint_indices, constraint_name=None):
        name = self._get_next_name(constraint_name or "user")
        return [self.problem.allow(node.name, output_constraint_indices, name)]

    def _add_paired_output_constraint(self, a, b, constraint_name):
        mine, its = (self.found[n].outputs[:, 0].tolist() for n in (a, b))
        pairs = [(k, its.index(x)) for k, x in enumerate(mine) if x in its]
        self.problem.allow_pairs(a.name, b.name, pairs, self._get_next_name(constraint_name))

    def get_solution(self, verbose=False):
        problem, constrained = self.problem.copy(), self._node_constraint_names.values()
        if self._memory_constraint is not None:
            free = [n for n in get_param_nodes(self.graph) if n.name not in constrained]
            parts = {
                n: self.found[n].local_shapes()[0][0].prod(1) / n.meta["val"].numel() for n in free
            }
            terms = [
                (n.name, label, x) for n, part in parts.items() for label, x in enumerate(part)
            ]
            lo, hi = (sum(max(min(p), b) for p in parts.values()) for b in self._memory_constraint)
            problem.add_row(terms, lo, hi, name="memory")
        self.solution = shardprop.graph.solve(problem)
        chosen = zip(self.found, self.solution.labels, strict=True)
        return self._to_orig_solution({n: self.strats[n].strategies[label] for n, label in chosen})

    resolve = get_solution
    create_cluster_links = validate = lambda self, *_: None  # neither is needed any more


api.ShardingOptimizer = Optimizer
