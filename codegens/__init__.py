"""Code generators of users at work: networks are partitioned, and their subgraphs handed to the user's functions."""
