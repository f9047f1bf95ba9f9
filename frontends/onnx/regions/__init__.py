"""Parts of a graph that code generators of users compile: the network as they see it, and its graph without them."""
