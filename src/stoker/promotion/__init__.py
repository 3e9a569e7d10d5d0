"""Promotions: an alias moves to another serve on evidence, is watched, and goes back if it got worse."""
