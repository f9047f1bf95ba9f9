"""Models in linalg on tensors that another compiler made."""
