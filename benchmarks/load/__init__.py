"""The load generator: subscribers, publishers and requesters, each in a process of its own."""
