"""Programs for C: headers, static libraries, an example."""
