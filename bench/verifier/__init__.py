"""Does the structural verification pass what is well built, and catch what is not? `python -m bench.verifier`.

phrases   sentences, names and code that cases are made of
shapes    random JSON schemas, and values that keep to them
clean     well-built answers of many kinds, each with the request that it answers
faults    one structural fault put into a clean answer
report    rejected, caught, and how fast
"""
