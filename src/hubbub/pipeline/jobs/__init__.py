"""Jobs: the plans of a round in their order, and the upkeep of tables."""
