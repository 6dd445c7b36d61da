"""Spans along a message's path: classes and functions that replace the untraced ones if tracing is
enabled."""
