"""The doors of notification channels."""
