"""What is found out about the tiers while they serve, and what follows from it. It is kept in `routing.tier_quality`.

monitor           identifies serves that start, watches for answers that become worse (drift)
fingerprints      what each serve was when it last ran
demotion          after a drift alarm: a tier that fails its preflight, too, is denied a class
recheck           runs that preflight beside the serve's other requests
shadow            grades live answers afterwards         judge     asks the tier that grades
live_grades_file  what live grades say, through a restart      demotions_file  demoted tiers, through a restart
classifier_model  a model that classifies requests, if it proved better than the built-in classifier
"""
