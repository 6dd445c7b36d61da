"""The proof of the cluster: nodes, NATS and PostgreSQL that fail under load, and a checker."""
