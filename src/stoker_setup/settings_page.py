"""What the page with the settings of a serve asks for, and what it changes. Blocks: it reads, writes and reloads."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from stoker.config.effective import schema
from stoker.domain.errors import ClientError, ConfigError
from stoker_setup import serve_settings
from stoker_setup.commands.reload_after import reload_after
from stoker_setup.config_edit import change_serve
from stoker_setup.config_file import ConfigFile


def shown(source: str, name: str) -> dict[str, Any]:
    """The form: each field with the value that the file has, None: none. `version`: of the file, for `changed`.

    Raises ClientError (no such serve in the file) and ConfigError.
    """
    file = ConfigFile(Path(source))
    row = serve_settings.row_of(file.text, name)
    known = serve_settings.fields(schema())
    names = {one["name"] for one in known}
    return {
        "serve": name, "file": source, "version": _version(file),
        "fields": [one | {"value": row.get(one["name"])} for one in known],
        "elsewhere": sorted(key for key in row if key not in names),
        "inherits": row.get("extends"),
    }  # fmt: skip


def changed(source: str, state: Path, name: str, values: dict[str, Any], version: str, dry_run: bool) -> dict[str, Any]:
    """`values`: None leaves the key out. The file changes if all is valid and the running Stoker takes it: that of
    the directory `state`, if it runs with this file (`reloaded`).

    `problems`: those of the changed file, each with its `field` if it is one of the form; nothing is written then.
    Raises ClientError (a key that is not in the form, `changed_meanwhile`), EditRefused, and RequestRefused for a
    reload that fails: the file is as it was then.
    """
    file = ConfigFile(Path(source))
    serve_settings.row_of(file.text, name)
    wanted = serve_settings.checked(values, serve_settings.fields(schema()))
    if _version(file) != version:
        text = f"{source} was changed since this form was opened: open it again"
        raise ClientError(text, code="changed_meanwhile", status=409)
    edit = change_serve(file.text, name, wanted)
    document: dict[str, Any] = {"diff": edit.diff(source), "problems": [], "written": False, "reloaded": False,
                                "version": version}  # fmt: skip
    if not document["diff"]:
        return document
    try:
        file.check(edit)
    except ConfigError as error:
        return document | {"problems": serve_settings.placed(error.problems, edit.after, name)}
    if not dry_run:
        file.write(edit)
        is_running = reload_after(file, edit, str(state))
        document |= {"written": True, "reloaded": is_running, "version": _version(file)}
    return document


def _version(file: ConfigFile) -> str:
    return hashlib.sha256(file.text.encode()).hexdigest()[:16]
