"""Rows of pending sums that hold and that torch's rules lack, as data, and rules with them."""
