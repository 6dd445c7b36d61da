"""Jobs: the Spark jobs of a round, and the maintenance of tables."""
