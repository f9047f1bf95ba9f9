"""Programs on disk: manifest, weights, shared libraries; all that is read is checked first."""
