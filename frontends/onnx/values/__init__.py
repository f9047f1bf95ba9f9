"""Values of the model while it is imported: tensors, what the host holds, what stands for those that failed."""
