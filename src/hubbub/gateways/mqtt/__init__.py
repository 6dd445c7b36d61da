"""MQTT over TCP, TLS and WebSocket."""
