"""Public conformance suites, run against a Stoker that the bench starts: `python -m bench.conformance --suites DIR`.

__main__   finds the suites, runs them, prints one table
suites     each suite: where it is found, how it is run, how its verdict is read
model      a model server that does what it is told, for tests that a tiny model cannot pass
"""
