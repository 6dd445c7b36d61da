"""The cluster under measurement: `make bench-cluster`."""
