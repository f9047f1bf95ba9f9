"""The steps of programs that the virtual machine runs: what each does, and the functions of the host that they call."""
