"""``tvm.contrib.download``: files from elsewhere, which nothing here fetches."""

from __future__ import annotations

from typing import Any, NoReturn

from ...core.errors import InputError


def download(url: str, path: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
    """A file from elsewhere: InputError."""
    raise InputError(f"'{url}' is not downloaded: fetch it, and give the path of the file in place of this call")


def download_testdata(url: str, relpath: str, module: Any = None, overwrite: bool = False) -> NoReturn:
    """As ``download``."""
    download(url)
