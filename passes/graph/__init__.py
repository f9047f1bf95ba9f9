"""Target-independent passes on `@main`."""
