"""The infrastructure of passes: what one is, the context that it runs in, who watches."""
