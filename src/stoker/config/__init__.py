"""From one file, `stoker.toml`, to the domain's records. Only `app` and `cli` import this package.

load       find(), load(): from a path to Settings, by way of the next seven
document     the text, the line of every key (positions), the list of problems
schema       what may stand in the file; what each kind of value accepts (fields, checks, units)
check        the file against the schema; the nearest known key (nearest), what comes later (later)
inherit      `extends`: a serve and its parents become one table
rules        what no single key can tell: naming, serving, placing
secrets      `env:NAME` and `file:PATH`
build        checked tables to Settings; where files lie (paths)
explain    show(), to_toml() (render), warnings() (caution), schema(): what the program runs by
demo       the settings of `stoker up --demo`

Every problem is found in one go; each is `FILE:LINE: key 'x.y': what is wrong`.
"""
