"""What is found out about the tiers while they serve, and what follows from it.

fingerprints      what a serve really is, and whether what was measured of it still holds
identify          asks a running engine what it is
demotion          a tier that has become worse is denied a class; `recheck` proves it again
shadow            answers graded beside the traffic; `judge`: the model that grades
classifier_model  a model that classifies requests, if it has proved better than the built-in classifier
"""
