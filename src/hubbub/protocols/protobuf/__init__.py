"""The protobuf of the socket protocol."""
