"""Plain data that every room shares: errors, sizes, models, programs, targets, limits. It imports nothing of ours."""
