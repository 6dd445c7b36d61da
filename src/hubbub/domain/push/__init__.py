"""Push notifications through the push services of browsers and phones."""
