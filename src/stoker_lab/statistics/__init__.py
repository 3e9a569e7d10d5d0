"""Statistics of pass and fail: intervals, the sequential test, drift. Pure.

stats       intervals and tests, each with its source
error_rate  how often something went wrong
drift       whether a model has become worse
"""
