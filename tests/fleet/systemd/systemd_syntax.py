"""A reader of systemd's syntax, written after its manual and independent of what writes it. Imports nothing of Stoker,
and starts fast: the stand-in for systemctl uses it, too.

systemd.syntax(7): sections, `key=value`, comments, continued lines. systemd.service(5), "Command lines": words, quotes,
C escapes, `$`. systemd.unit(5): `%%`. systemd.exec(5): EnvironmentFile.
"""

import re

ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'", "s": " ", "r": "\r"}


def read_unit(text):
    """Section to its settings, in order."""
    sections, current = {}, None
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
            continue
        key, found, value = line.partition("=")
        assert found, f"no setting: {line}"
        current.append((key.rstrip(), value.lstrip()))
    return sections


def setting(text, section, key):
    """The last value of a setting, `%%` filled in; None: it is not there."""
    values = [value for name, value in read_unit(text).get(section, []) if name == key]
    return specifiers(values[-1]) if values else None


def words(line):
    """A line split at blanks, with quotes and C escapes taken away."""
    found, word, quote, at = [], None, None, 0
    while at < len(line):
        c = line[at]
        if c == "\\":
            at += 1
            assert line[at] in ESCAPES, f"unknown escape \\{line[at]}"
            word = (word or "") + ESCAPES[line[at]]
        elif quote is not None:
            if c == quote:
                quote = None
            else:
                word += c
        elif c in "\"'" and word is None:
            quote, word = c, ""
        elif c in " \t":
            if word is not None:
                found.append(word)
            word = None
        else:
            word = (word or "") + c
        at += 1
    assert quote is None, "a quote is not closed"
    return found + ([word] if word is not None else [])


def specifiers(text):
    def fill(match):
        assert match[1] == "%", f"a specifier that nobody meant: %{match[1]}"
        return "%"

    return re.sub(r"%(.?)", fill, text, flags=re.DOTALL)


def variables(text, environment):
    """`$$` is `$`, `${NAME}` its value; another `$` would be filled in, too, and nobody meant that."""

    def fill(match):
        if match[1] == "$":
            return "$"
        assert match[2] is not None, f"a variable that nobody meant: {text}"
        return environment.get(match[2], "")

    return re.sub(r"\$(\$|\{([A-Za-z0-9_]+)\}|.|$)", fill, text, flags=re.DOTALL)


def command(line, environment):
    """The argument list of an `ExecStart=`. The program itself is taken as it is: no variable is filled in there."""
    program, *arguments = [specifiers(word) for word in words(line)]
    return [program, *(variables(word, environment) for word in arguments)]


def read_environment(text):
    """The variables of an environment file, read as a small state machine: systemd.exec(5)."""
    found, at = {}, 0
    while at < len(text):
        end = text.index("=", at)
        name, at, value, quote = text[at:end], end + 1, "", None
        while at < len(text):
            c = text[at]
            at += 1
            if quote is None and c == "\n":
                break
            if quote is None and c in "\"'":
                quote = c
            elif c == quote:
                quote = None
            elif c == "\\" and quote != "'":
                c, at = text[at], at + 1
                value += c if quote is None or c in '"\\`$' else "\\" + c
            else:
                value += c
        assert quote is None, "a quote is not closed"
        found[name] = value
    return found
