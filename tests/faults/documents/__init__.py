"""Documents of a cluster whose owner is killed while clients edit, and a checker."""
