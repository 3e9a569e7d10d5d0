"""Rules about several keys at once. What a rule finds goes to the document, as a problem with its line.

all_rules  runs them all, and those of extensions; the front door, `edge:NAME`
keys       keys of callers, and applications
names      one namespace for serves, their names, and tiers
serves     what one serve needs, and what it must not have
tls        the certificate
boxes      slots of other Stokers
clusters   clusters, and what a job there cannot do
slots      ports, slots and their memory; also: the same model elsewhere
gates      gates and aliases
routing    tiers and classes
"""
