"""What files of the zoo say of who made them."""

PRODUCER = "tilewright.zoo"
