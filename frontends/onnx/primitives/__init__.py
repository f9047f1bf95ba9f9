"""Functions of tensors, and of scalars in bodies, that algorithms and converters are made of."""
