"""The protocol of Hubiquitus: events with one object each, as its clients send and expect them."""
