"""Measures Hubbub side by side with other hubs, under one load generator."""
