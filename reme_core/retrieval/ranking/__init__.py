"""The ranking index of a partition, and the parts of its score."""
