"""`stoker keys`: make, limit, disable, rotate and delete the keys of callers while Stoker runs."""

from __future__ import annotations

import json as json_text
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import RequestRefused, UsageError
from stoker.cli.console.hints import CommandsWithHints, CommandWithSettings
from stoker.cli.console.installation import find_running

if TYPE_CHECKING:
    from stoker.cli.console.control import Control

app = typer.Typer(
    cls=CommandsWithHints, help="Make, limit, disable and rotate the keys of callers.", no_args_is_help=True
)
options.accept_config(app)

KeyName = Annotated[str, typer.Argument(metavar="NAME", help="The key's name.", autocompletion=options.key_names)]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the change.")]
Cut = Annotated[bool, typer.Option("--cut", help="Also end its requests that run.")]
App = Annotated[
    str, typer.Option("--app", metavar="APP", help="An application: [app.APP].", autocompletion=options.app_names)
]
Scope = Annotated[str | None, typer.Option("--scope", help="`inference`, `observe` or `admin`.", show_default=False)]
Models = Annotated[
    str | None, typer.Option("--models", metavar="A,B", help="Models that it may use.", show_default=False)
]
PriorityOption = Annotated[
    str | None, typer.Option("--priority", help="`interactive`, `normal` or `background`.", show_default=False)
]
Weight = Annotated[
    float | None, typer.Option("--weight", help="Share beside keys of its priority.", show_default=False)
]
Context = Annotated[
    int | None, typer.Option("--context", metavar="TOKENS", help="Longest prompt and answer.", show_default=False)
]
MaxOutput = Annotated[
    int | None, typer.Option("--max-output", metavar="TOKENS", help="Longest answer.", show_default=False)
]
MaxActive = Annotated[int | None, typer.Option("--max-active", help="Most requests at once.", show_default=False)]
PerMinute = Annotated[
    int | None, typer.Option("--requests-per-minute", help="Most requests in a minute.", show_default=False)
]
TokensPerDay = Annotated[int | None, typer.Option("--tokens-per-day", help="Most tokens in a day.", show_default=False)]
CostPerDay = Annotated[
    float | None, typer.Option("--cost-per-day", help="Most money for clouds and tools in a day.", show_default=False)
]
Cloud = Annotated[
    bool | None, typer.Option("--cloud/--no-cloud", help="Whether it may use clouds.", show_default=False)
]
More = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SETTING=VALUE", help="Any setting of `[app.NAME]`; may be repeated.", show_default=False
    ),
]


@app.command(cls=CommandWithSettings)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the key, in logs and usage.")],
    of_app: App = "",
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help='When it ends: "90d", "12h".', show_default=False)
    ] = None,
    scope: Scope = None,
    models: Models = None,
    priority: PriorityOption = None,
    weight: Weight = None,
    context: Context = None,
    max_output: MaxOutput = None,
    max_active: MaxActive = None,
    requests_per_minute: PerMinute = None,
    tokens_per_day: TokensPerDay = None,
    cost_per_day: CostPerDay = None,
    cloud: Cloud = None,
    more: More = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the first key.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Make a key and print it, once. Only its hash is stored.

    Before the first key, after which every request needs one, a person at a terminal is asked.
    """
    settings = _settings(
        more, scope=scope, models=None if models is None else models.split(","), priority=priority, weight=weight,
        context=context, max_output=max_output, max_active=max_active, requests_per_minute=requests_per_minute,
        tokens_per_day=tokens_per_day, cost_per_day=cost_per_day, cloud=cloud,
    )  # fmt: skip
    seconds = None if expires is None else _seconds(expires, "--expires")
    with find_running(config, state).control() as control:
        is_first = _confirm_first_key(control, asks=not (yes or json))
        try:
            answer = control.make_key(name, of_app, settings, seconds)
        except RequestRefused:
            if is_first:
                terminal.note("no key was made, so requests need none yet")
            raise
    _show_value(answer, json, f"key '{name}' works now; keep it, it is not shown again")


def _confirm_first_key(control: Control, asks: bool) -> bool:
    """Whether this is the first key. Says what that does to everybody else, and asks a person. Raises RequestRefused if
    the answer is no.
    """
    door = control.status().frontdoor
    if door.auth == "keys" or door.auth_configured is not None:
        return False
    terminal.note("this is the first key: from then on every request needs a key, and all others get 401")
    if not asks or not sys.stdin.isatty():
        return True
    terminal.note("make it? [y/N]")  # stdout is the key's alone
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RequestRefused("no key was made; add --yes to make it without being asked", code="not_confirmed")
    return True


@app.command("list")
def list_(config: options.Config = None, state: options.State = None, json: options.Json = False) -> None:
    """List all keys, those of the configuration included."""
    with find_running(config, state).control() as control:
        answer = control.keys()
    if json:
        terminal.emit(answer)
        return
    if not answer["keys"]:
        terminal.say("there are no keys yet")
        terminal.note(f"make one: stoker keys create NAME{options.same_place(config, state)}")
        return
    rows = [
        (
            one["name"], one["app"] or "-", one["state"], one["scope"],
            one.get("begins", "") + "…" if one.get("begins") else "in the configuration",
            "-" if not one.get("expires_at") else figures.moment(one["expires_at"]),
            str(one["active"]), _brief(one),
        )
        for one in answer["keys"]
    ]  # fmt: skip
    terminal.table(
        ("KEY", "APP", "STATE", "SCOPE", "VALUE", "EXPIRES", "RUNNING", "SETTINGS"), rows, right=("RUNNING",)
    )


@app.command()
def show(name: KeyName, config: options.Config = None, state: options.State = None, json: options.Json = False) -> None:
    """Show one key: its settings, its limits, and what is left of them."""
    with find_running(config, state).control() as control:
        answer = control.key(name)
    if json:
        terminal.emit(answer)
        return
    _show_key(answer)


@app.command("set", cls=CommandWithSettings)
def set_(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="The key's name.", autocompletion=options.key_names)
    ] = "",
    of_app: App = "",
    scope: Scope = None,
    models: Models = None,
    priority: PriorityOption = None,
    weight: Weight = None,
    context: Context = None,
    max_output: MaxOutput = None,
    max_active: MaxActive = None,
    requests_per_minute: PerMinute = None,
    tokens_per_day: TokensPerDay = None,
    cost_per_day: CostPerDay = None,
    cloud: Cloud = None,
    more: More = None,
    undo: Annotated[bool, typer.Option("--reset", help="Undo all changes, as `stoker keys reset`.")] = False,
    reason: Reason = "",
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Change settings of a key, or of an application (--app), from the next request on."""
    kind, target = _target(name, of_app)
    settings = _settings(
        more, scope=scope, models=None if models is None else models.split(","), priority=priority, weight=weight,
        context=context, max_output=max_output, max_active=max_active, requests_per_minute=requests_per_minute,
        tokens_per_day=tokens_per_day, cost_per_day=cost_per_day, cloud=cloud,
    )  # fmt: skip
    if not settings and not undo:
        raise UsageError("nothing to change: give a setting, such as --context 32768, or --reset")
    with find_running(config, state).control() as control:
        if undo:
            answer = control.change_key(kind, target, "reset")
        else:
            answer = control.change_key(kind, target, "set", settings=settings, reason=reason)
    if json:
        terminal.emit(answer)
        return
    done = "is as configured again" if undo else "is changed, from the next request on"
    terminal.say(f"{_title(kind, target)} {done}")
    if not undo:
        place = options.same_place(config, state)
        terminal.note(f"undo it: stoker keys reset {'--app ' if kind == 'app' else ''}{target}{place}")


@app.command()
def reset(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="The key's name.", autocompletion=options.key_names)
    ] = "",
    of_app: App = "",
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Undo all changes of a key or an application that were made while Stoker ran."""
    kind, target = _target(name, of_app)
    with find_running(config, state).control() as control:
        answer = control.change_key(kind, target, "reset")
    _say(answer, json, f"{_title(kind, target)} is as configured again")


@app.command()
def disable(
    name: KeyName,
    cut: Cut = False,
    reason: Reason = "",
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Take a key away now: its next request is refused."""
    with find_running(config, state).control() as control:
        answer = control.change_key("key", name, "disable", reason=reason, cut=cut)
    ended = f"; running requests that were ended: {answer['ended_requests']}" if cut else ""
    undo = f"undo it: stoker keys enable {name}{options.same_place(config, state)}"
    _say(answer, json, f"key '{name}' is disabled{ended}", undo)


@app.command()
def enable(
    name: KeyName, config: options.Config = None, state: options.State = None, json: options.Json = False
) -> None:
    """Accept a disabled key again."""
    with find_running(config, state).control() as control:
        answer = control.change_key("key", name, "enable")
    _say(answer, json, f"key '{name}' is enabled")


@app.command()
def rotate(
    name: KeyName,
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help='How long the old value stays valid: "24h", "0s".')
    ] = "24h",
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Give a key a new value and print it, once. The old one stays valid for a while."""
    seconds = _seconds(grace, "--grace")
    with find_running(config, state).control() as control:
        answer = control.change_key("key", name, "rotate", grace=seconds)
    _show_value(answer, json, f"the new value of key '{name}'; the old one is valid for {grace} more")


@app.command()
def delete(
    name: KeyName,
    cut: Cut = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Delete a key that was made while Stoker ran. Its usage stays."""
    with find_running(config, state).control() as control:
        was_open = _is_open(control)
        answer = control.change_key("key", name, "delete", cut=cut)
        is_opened = not was_open and _is_open(control)
    note = '; it was the last one, so requests need no key now: `auth = "keys"` in [front_door] asks for one'
    _say(answer, json, f"key '{name}' is deleted{note if is_opened else ''}")


def _is_open(control: Control) -> bool:
    """Whether requests need no key now."""
    return control.status().frontdoor.auth != "keys"


def _settings(more: list[str] | None, **given: Any) -> dict[str, Any]:
    """What was given, by the names of the configuration."""
    found = {name: value for name, value in given.items() if value is not None}
    for text in more or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: write SETTING=VALUE, such as --set tokens_per_minute=100000")
        try:
            found[name.strip()] = json_text.loads(value)
        except ValueError:
            found[name.strip()] = value
    return found


def _seconds(text: str, option: str) -> float:
    from stoker.domain.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}; for days write 90d") from None


def _target(name: str, of_app: str) -> tuple[str, str]:
    if bool(name) == bool(of_app):
        raise UsageError("give the name of a key, or an application with --app, and not both")
    return ("app", of_app) if of_app else ("key", name)


def _title(kind: str, name: str) -> str:
    return f"application '{name}'" if kind == "app" else f"key '{name}'"


def _say(answer: dict[str, Any], json: bool, done: str, hint: str = "") -> None:
    if json:
        terminal.emit(answer)
        return
    terminal.say(done)
    if hint:
        terminal.note(hint)


def _show_value(answer: dict[str, Any], json: bool, about: str) -> None:
    """The value alone on stdout, so that it can be piped."""
    if json:
        terminal.emit(answer)
        return
    terminal.note(about)
    terminal.say(answer["key"])


def _show_key(one: dict[str, Any]) -> None:
    terminal.say(f"{one['name']}  {one['state']}, {one['scope']}, {one['source']}")
    if one["app"]:
        terminal.say(f"  application               {one['app']}")
    if one.get("created_at"):
        terminal.say(f"  made                      {figures.moment(one['created_at'])}, begins with {one['begins']}")
    if one.get("expires_at"):
        terminal.say(f"  expires                   {figures.moment(one['expires_at'])}")
    if one.get("previous_until"):
        terminal.say(f"  old value                 valid until {figures.moment(one['previous_until'])}")
    for name, value in one["settings"].items():
        terminal.say(f"  {name:<25} {_shown(value)}")
    override = one["override"]
    if override is not None:
        reason = f" ({override['reason']})" if override["reason"] else ""
        changes = ", ".join(f"{name} = {_shown(value)}" for name, value in override["settings"].items()) or one["state"]
        terminal.say(f"  overridden                {changes}, {figures.moment(override['at'])}{reason}")
    if one["limits"]:
        rows = [
            (each["limit"], _amount(each["used"]), _amount(each["remaining"]), _amount(each["of"]), each["resets_at"])
            for each in one["limits"]
        ]
        terminal.say()
        terminal.table(("LIMIT", "USED", "LEFT", "OF", "RESETS"), rows, right=("USED", "LEFT", "OF"))


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4f}"


def _brief(one: dict[str, Any]) -> str:
    override = one["override"]["settings"] if one["override"] else {}
    shown = {name: value for name, value in {**one["settings"], **override}.items() if name != "scope"}
    return ", ".join(f"{name}={_shown(value)}{'*' if name in override else ''}" for name, value in shown.items()) or "-"


def _shown(value: Any) -> str:
    """As the option takes it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
