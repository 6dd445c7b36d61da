"""What happens around storing: validators before it, savers after it."""
