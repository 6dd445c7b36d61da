"""A receiver of webhooks, for any web framework."""
