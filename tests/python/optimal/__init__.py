"""Policy `optimal` against an oracle of its own: docs/optimal.md in plain Python, slow and short.

state.py, permutes.py and moves.py say what a plan may do and what each step costs; brute_force.py
finds the cheapest plan, search_oracle.py the cheapest strategy. Nothing here looks at the planner.
"""
