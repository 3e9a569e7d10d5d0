"""Reads `stoker.toml` and turns it into the domain's records. In the core only `app` and `cli` import it.

find           which file, and the state directory that it names
load           from a path to Settings, in these steps:
document         the text, the line of every key (line_numbers), the list of problems
renamed_keys     keys under their old names get the new ones
validation       each section against its table (definition: what a class of a table says about its keys)
tables/          the tables: which keys there are, and what each accepts (domain.kinds)
sections         the tables that extensions bring
inheritance      `extends`: a serve and its parents become one table
cloud_tiers      tiers with a `base_url` become external serves (local_address: is it a private network?)
rules/           rules about several keys at once
secrets          `env:NAME` and `file:PATH`
build            checked tables to Settings; where files are (paths)

secret_words   secrets in environments and command lines
warnings       what is allowed but probably not meant
changes        which settings differ between two configurations, and which of them need a restart
effective      the effective values: show(), to_toml() (toml_writer), schema()
demo           the settings of `stoker up --demo`

All problems are reported at once, each as `FILE:LINE: key 'x.y': what is wrong`.
"""
