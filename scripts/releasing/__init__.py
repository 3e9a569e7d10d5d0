"""A release of Stoker, made and checked by one command: `scripts/release`.

changelog      the sections of CHANGELOG.md            version    the one place of the version, and its copies
build          sdist and wheel, twice, same bytes; compiled wheels
contents       what a wheel has to hold, and must not  sbom       the bill of materials
installed      a wheel in an empty environment, used as users do
deb            a Debian package of the wheel           tools      the environments that builders run in
"""
