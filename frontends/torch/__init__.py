"""PyTorch: modules and exported programs become linalg in a worker that runs torch-mlir (``convert.py``).

The only folder that imports torch.
"""
