"""The producer's name in files of the zoo."""

PRODUCER = "tilewright.zoo"
