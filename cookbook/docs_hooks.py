"""Put the notebooks, which stand beside the documentation, on its site."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add `cookbook/*.ipynb` as `notebooks/*`."""
    for notebook in sorted(HERE.glob("*.ipynb")):
        files.append(added(notebook, f"notebooks/{notebook.name}", config))
    return files


def added(path: Path, uri: str, config: MkDocsConfig) -> Any:
    """A file from elsewhere, under an address of the site."""
    file = File.generated(config, uri, abs_src_path=str(path))
    file.edit_uri = None
    return file
