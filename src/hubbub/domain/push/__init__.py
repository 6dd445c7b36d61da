"""Push: reaching people whose screen is off, through the push services of browsers and phones."""
