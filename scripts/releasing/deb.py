"""A Debian package: the wheel with everything it needs in /opt/stoker, a service, manual page and completions.

It belongs to one version of Python, that of a Debian release, because of compiled packages. What it installs is under
dpkg's eyes but for byte code, which it makes and removes itself.
"""

from __future__ import annotations

import gzip
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from scripts.releasing import build, version
from scripts.releasing.changelog import ReleaseRefused
from scripts.releasing.sbom import BUILD_ONLY, LOCK
from scripts.releasing.tools import ROOT, run, tool

SOURCE = ROOT / "deploy" / "debian"
PYTHONS = {"3.11": "bookworm", "3.13": "trixie"}
"""The Python of each Debian release."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SCRIPT = "#!/opt/stoker/bin/python3\nimport sys\n\nfrom stoker.cli.entry import main\n\nsys.exit(main())\n"
MAINTAINER_SCRIPTS = ("postinst", "prerm", "postrm")
_ENVIRONMENT = "home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"


def make(python: str, wheel: Path, dist: Path = build.DIST) -> Path:
    """Make the package for the Debian release with this Python. Raises ReleaseRefused."""
    if shutil.which("dpkg-deb") is None:
        raise ReleaseRefused("a Debian package needs dpkg-deb: apt install dpkg")
    if python not in PYTHONS:
        raise ReleaseRefused(f"no Debian release is known with Python {python}: {', '.join(PYTHONS)}")
    name = f"stoker_{version.current()}-1~{PYTHONS[python]}_{_architecture()}.deb"
    with tempfile.TemporaryDirectory(prefix="stoker-deb-") as scratch:
        root = Path(scratch) / "root"
        _program(root / "opt" / "stoker", python, wheel)
        _system(root)
        _control(root, python)
        run(["dpkg-deb", "--root-owner-group", "-Zzstd", "--build", str(root), str(dist / name)],
            environment={"SOURCE_DATE_EPOCH": build.epoch()})  # fmt: skip
    build.write_sums(dist)
    return dist / name


def _architecture() -> str:
    return ARCHITECTURES[platform.machine()]


def _program(place: Path, python: str, wheel: Path) -> None:
    """An environment whose interpreter is Debian's."""
    packages = place / "lib" / f"python{python}" / "site-packages"
    packages.mkdir(parents=True)
    target = ["--quiet", "--target", str(packages)]
    kind = ["--python-version", python, "--python-platform", f"{platform.machine()}-manylinux_2_28"]
    run([tool("uv"), "pip", "install", *target, *kind, "--only-binary", ":all:", "--require-hashes", "-r", str(LOCK)])
    run([tool("uv"), "pip", "install", *target, *kind, "--no-deps", str(wheel)])
    run([tool("uv"), "pip", "uninstall", *target, *sorted(BUILD_ONLY)])
    for left in ("bin", "share", ".lock"):
        shutil.rmtree(packages / left, ignore_errors=True)
        (packages / left).unlink(missing_ok=True)
    for trace in (*packages.glob("*.dist-info/direct_url.json"), *packages.glob("*.dist-info/uv_*.json")):
        trace.unlink()
    for cache in list(packages.rglob("__pycache__")):
        shutil.rmtree(cache)
    (place / "bin").mkdir()
    (place / "bin" / "python3").symlink_to(f"/usr/bin/python{python}")
    _write(place / "bin" / "stoker", SCRIPT, 0o755)
    _write(place / "pyvenv.cfg", _ENVIRONMENT.format(python=python))


def _system(root: Path) -> None:
    """What lies outside /opt: the command, the service, its configuration and user, manual page, completions."""
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "stoker").symlink_to("/opt/stoker/bin/stoker")
    shutil.copytree(ROOT / "share", root / "usr" / "share")
    zsh = root / "usr" / "share" / "zsh"
    (zsh / "site-functions").rename(zsh / "vendor-completions")  # Debian's folder for packages
    page = root / "usr" / "share" / "man" / "man1" / "stoker.1"
    _compress(page.read_bytes(), page.with_name("stoker.1.gz"))
    page.unlink()
    about = root / "usr" / "share" / "doc" / "stoker"
    about.mkdir(parents=True)
    shutil.copy(SOURCE / "copyright", about / "copyright")
    _compress((ROOT / version.CHANGELOG).read_bytes(), about / "changelog.gz")
    for name, folder, new in (
        ("stoker.service", "usr/lib/systemd/system", "stoker.service"),
        ("stoker.socket", "usr/lib/systemd/system", "stoker.socket"),
        ("sysusers.conf", "usr/lib/sysusers.d", "stoker.conf"),
        ("stoker.toml", "etc/stoker", "stoker.toml"),
    ):
        _write(root / folder / new, (SOURCE / name).read_text())


def _control(root: Path, python: str) -> None:
    size = int(subprocess.run(["du", "-sk", str(root)], capture_output=True, check=True).stdout.split()[0])
    fields = {
        "Package": "stoker",
        "Version": f"{version.current()}-1~{PYTHONS[python]}",
        "Architecture": _architecture(),
        "Maintainer": "the authors of Stoker <stoker@localhost>",
        "Installed-Size": size,
        "Depends": f"python{python}, libgomp1, libc6 (>= 2.28), systemd | systemd-standalone-sysusers",
        "Recommends": "ca-certificates",
        "Section": "net",
        "Priority": "optional",
        "Description": "one stable endpoint for the language models that you run yourself\n"
        " Stoker starts llama.cpp, vLLM, SGLang and others, swaps them on a scarce GPU,\n"
        " and answers the OpenAI, Anthropic and Ollama APIs at one address.",
    }
    _write(root / "DEBIAN" / "control", "".join(f"{key}: {value}\n" for key, value in fields.items()))
    _write(root / "DEBIAN" / "conffiles", "/etc/stoker/stoker.toml\n")
    for name in MAINTAINER_SCRIPTS:
        _write(root / "DEBIAN" / name, (SOURCE / name).read_text(), 0o755)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.chmod(path, mode)


def _compress(data: bytes, path: Path) -> None:
    path.write_bytes(gzip.compress(data, mtime=0))
