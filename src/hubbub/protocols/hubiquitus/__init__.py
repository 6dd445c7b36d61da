"""The protocol of Hubiquitus: events with one object each."""
