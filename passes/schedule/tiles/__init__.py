"""Words of tiles: axes, regions of values, loops, ops on tiles and buffers."""
