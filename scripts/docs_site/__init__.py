"""The documentation as a web site, made from docs/ by Zensical. Run it by scripts/docs-site.

site.toml   the navigation, and the settings of the generator
source      the pages as the generator wants them: links, and what they lead to
build       the site of one version
diagrams    the library that draws the diagrams, fetched and verified
check       what is wrong with a built site
versions    a folder for each version, a list of them, and `latest`
archive     one version as one file, for the wheel
tools       the generator's environment
"""
