"""Values of the model while it is imported: tensors, what the host holds, and values of dynamic rank."""
