"""Backup and restore of the data folder."""
