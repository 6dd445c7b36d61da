"""Push: finds the devices that a message goes to, and delivers to them, independently of
channels."""
