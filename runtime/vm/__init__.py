"""The virtual machine: programs whose sizes, or whose course, only the run knows."""
