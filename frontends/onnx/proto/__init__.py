"""The model file: its bytes and protobuf, its weights, and whether it is valid."""
