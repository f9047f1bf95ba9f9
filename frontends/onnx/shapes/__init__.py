"""Shapes of inputs as the file and the user give them, and structure that only the run knows."""
