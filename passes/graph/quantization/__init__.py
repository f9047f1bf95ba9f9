"""Reading quantised tensors and weights, and emitting products of bytes."""
