"""Passes that bring linalg which another compiler made to the rules of ``@main`` (docs/architecture.md)."""
