"""Hooks of mkdocs: links that work on GitHub work on the site, and two pages come from the root of the repository."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=\))")
"""The target of a relative link, and its anchor."""

FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages that are files outside of docs/."""


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that are files in the root of the repository."""
    for page, source in FROM_ROOT.items():
        content = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_with_links(content, source)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links to sources, tests and examples lead to the repository."""
    if page.file.src_uri in FROM_ROOT:
        return markdown
    return _with_links(markdown, f"docs/{page.file.src_uri}")


def _with_links(content: str, document: str) -> str:
    return LINK.sub(lambda link: _target(link, document), content)


def _target(link: "re.Match[str]", document: str) -> str:
    """Where a link of a document leads: below docs/ as it is there, otherwise to GitHub."""
    path, anchor = link[1], link[2] or ""
    target = normpath(str(PurePosixPath(document).parent / path))
    for page, source in FROM_ROOT.items():
        if target == source:
            target = f"docs/{page}"
    if not target.startswith("docs/"):
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"https://github.com/boxscore/boxscore/{kind}/main/{target}{anchor}"
    depth = 0 if document in FROM_ROOT.values() else len(PurePosixPath(document).parts) - 2
    return f"{'../' * depth}{target.removeprefix('docs/')}{anchor}"
