"""The standing attack: a hostile tenant and strangers against a hub that serves another tenant."""
