"""The composites that `recognize-composites` knows, one file each, and how they read what an op computes."""
