"""Rules about several keys at once. What a rule finds goes to the document, as a problem with its line.

all_rules  runs them all; the front door
keys       keys of callers, and applications
names      one namespace for serves, their names, and tiers
serves     what one serve needs, and what it must not have
edges      workers whose address may change
orchestrators  workers, validators and their files
tls        the certificate
clusters   clusters, and what a job there cannot do
slots      ports, slots and their memory; also: the same model elsewhere
gates      gates and aliases
routing    tiers and classes
"""
