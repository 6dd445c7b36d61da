"""The spans of a message's way: classes and functions that stand in for those that tell nothing,
where tracing is on."""
