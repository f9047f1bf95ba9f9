"""Functions of float32 as straight lines of arithmetic on one scalar, a family to a file."""
