"""The tiler: a schedule is carried out, op by op."""
