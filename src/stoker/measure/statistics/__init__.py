"""Statistics of pass and fail: intervals, the sequential test, drift. Pure."""
