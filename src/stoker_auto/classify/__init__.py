"""The task class of a request, from its outline. Pure.

classify   the decision: declared, by the form of the request, or by learned weights
asks, between, features, shapes, verbs, languages, letters   read the text
conversation, continuing, references   look at earlier turns
weights, packed   hold the weights
"""
