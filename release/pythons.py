"""The Pythons of this machine, and environments of them."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


def find_python(version: str) -> Path:
    """The Python of a version, such as 3.12: on the PATH, or one that pyenv has installed."""
    candidates = [shutil.which(f"python{version}")]
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(folder / "bin" / "python") for folder in sorted(installed.glob(f"{version}.*"), reverse=True)]
    for candidate in candidates:
        if candidate is not None and _version_of(candidate) == version:
            return Path(candidate)
    raise SystemExit(f"Python {version} is not on this machine: neither on the PATH nor installed by pyenv")


def _version_of(executable: str) -> str | None:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([executable, "-c", program], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def make_environment(python: Path, folder: Path, packages: Sequence[str]) -> Path:
    """The Python of a virtual environment that has these packages; made if it does not exist."""
    executable = folder / "bin" / "python"
    if not executable.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    if packages:
        subprocess.run([executable, "-m", "pip", "install", "--quiet", *packages], check=True)
    return executable
