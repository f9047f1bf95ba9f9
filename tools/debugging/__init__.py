"""Finding faults: the oracle, bisection of passes and nodes, reduction of models; for commands, tests and fuzzers."""
