"""The proof of exactly-once: real processes that are killed again and again, and a checker."""
