"""A release of Stoker, made and checked by one command: `scripts/release`.

changelog      the sections of CHANGELOG.md            version    the one place of the version, and its copies
build          sdist and wheel, twice, same bytes      contents   what a wheel has to hold, and must not
sbom           the bill of materials                   installed  the wheel in an empty environment, used as users do
deb            a Debian package of the wheel
tools          the environment that builders run in
"""
