"""The way of a decision: hook -> route -> question -> core_call -> answer."""
