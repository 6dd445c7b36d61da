"""`hubbub metering`."""
