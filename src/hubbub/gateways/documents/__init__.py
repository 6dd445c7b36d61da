"""The doors of document channels."""
