"""Random graphs over sizes that vary independently of each other: ``python -m fuzz.sizes``."""
