"""x"""

ADMITTED: frozenset[str] = frozenset()
