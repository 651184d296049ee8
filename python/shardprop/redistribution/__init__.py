"""Plans from one layout to another: torch's and the cheapest, shown and carried out."""
