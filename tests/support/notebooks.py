"""The notebooks of the documentation: run them, and read their outputs.

python -m tests.support.notebooks runs all of them and stores their outputs: `make notebooks`.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.support.documents import ROOT

FOLDER = ROOT / "docs" / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))


def executed(path: Path, folder: Path) -> Any:
    """The notebook with the outputs that it gives now, run in that folder."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(folder))
    return notebook


def texts(notebook: Any) -> list[str]:
    """What each code cell printed and gave as plain text; pictures and Markdown are left out.

    Pictures differ between versions of matplotlib; what depends on the processor is shown as Markdown. What a cell
    prints may come in one output or in several.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(text for output in cell.outputs if (text := _text(output)) is not None) for cell in cells]


def _text(output: Any) -> str | None:
    if output.output_type == "stream":
        return str(output.text)
    data = output.get("data", {})
    is_rich = any(kind in data for kind in ("image/png", "text/markdown"))
    return None if is_rich else str(data.get("text/plain", output.get("evalue")))


def main(folder: Path) -> None:
    """Run and store all of them."""
    for path in PATHS:
        notebook = executed(path, folder)
        for cell in notebook.cells:
            cell.metadata = {}
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT)
