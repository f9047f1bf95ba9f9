"""A trial and a winner, which the tests of records share."""

from tilewright.records import Trial, Winner

TRIAL = Trial(
    "matmul_1a2b3c4d", "x86-512", 2, '{"result": {}}', '[["split", "n", 32]]', (1.0, 3.0), (2.0, 3.0), time=5.0
)
WINNER = Winner("matmul_1a2b3c4d", "x86-512", 2, "{}", "[]", 0.5, 0.4, 0.6, "resnet50", 0.9, 0.8, 0.95, "0.1", 7.0)
