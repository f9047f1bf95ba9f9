"""``tilewright cache ls|prune|verify``: looks at the compile cache, makes it smaller, hashes all of it again."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from tilewright.core.errors import CompileError
from tilewright.core.own_files import cache_folder
from tilewright.core.printed import size_text
from tilewright.driver.cache import compile_cache
from tilewright.driver.cache.store import KINDS, Cache, Item, why_unsafe
from tilewright.tools._command import as_command
from tilewright.tools._options import make_parser
from tilewright.tools._output import age_text, print_report, print_table, showing_progress

DAMAGED = 1
_COLUMNS = ("kind", "entries", "size", "last used", "oldest")


@as_command
def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked; the exit code is 1 where ``verify`` found damage."""
    args = _parser().parse_args(argv)
    if args.action != "prune" and (args.all or args.size is not None):
        raise CompileError(f"{args.action} takes neither a size nor --all: they are for prune")
    if args.all and args.size is not None:
        raise CompileError("prune --all keeps nothing: leave out the size")
    cache = _open_cache()
    code = {"ls": _ls, "prune": _prune, "verify": _verify}[args.action](cache, args)
    if notes := cache.close():
        raise CompileError("; ".join(notes))
    return code


def _parser() -> argparse.ArgumentParser:
    cli = make_parser(
        "cache", "show the compile cache, make it smaller, or check it", "[options] ls|prune|verify [size]"
    )
    cli.add_argument("action", choices=("ls", "prune", "verify"), metavar="ls|prune|verify", help="what to do")
    cli.add_argument(
        "size", nargs="?", type=_parse_bytes, help="size that prune keeps, newest first: 500MB (its limit)"
    )
    cli.add_argument("--all", action="store_true", help="prune keeps nothing")
    return cli


def _parse_bytes(text: str) -> int:
    try:
        return compile_cache.parse_size(text, "the size")
    except CompileError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _open_cache() -> Cache:
    """The user's cache, although it may be switched off."""
    folder = cache_folder()
    if refusal := why_unsafe(folder):
        raise CompileError(refusal)
    return Cache(folder, compile_cache.default_limit())


def _ls(cache: Cache, args: argparse.Namespace) -> int:
    items = cache.items()
    kinds = {kind: _summary([item for item in items if item.kind == kind]) for kind in KINDS}
    whole = _summary(items)
    entries = [{"kind": i.kind, "key": i.key, "bytes": i.nbytes, "used": i.used} for i in items]
    record = {"folder": str(cache.folder), "limit": cache.limit, **whole, "kinds": kinds, "list": entries}
    text = f"{whole['entries']} entries, {size_text(whole['bytes'])} of {size_text(cache.limit)}"
    print_report(record, [f"{cache.folder}: {text}"], args)
    if items and not args.json and not args.quiet:
        print_table([_COLUMNS, *(_kind_row(kind, summary) for kind, summary in kinds.items() if summary["entries"])])
    return 0


def _prune(cache: Cache, args: argparse.Namespace) -> int:
    removed = cache.trim(0 if args.all else args.size)
    print_report(_removal_record(cache, removed), [f"removed {_describe_items(removed)}, {_left(cache)}"], args)
    return 0


def _verify(cache: Cache, args: argparse.Namespace) -> int:
    strange = cache.strangers()
    removed = [found for found in strange if cache.remove(found)]
    with showing_progress("verifying the cache", args) as say:
        bad = compile_cache.verify(cache, lambda done, total: say("verifying entries", done, total))
    lines = [f"removed {found.path}: {found.why}, so it was not used" for found in removed]
    lines += [f"removed {item.path}: damaged, or not an entry of the cache" for item in bad]
    others = f", {len(strange)} not ours alone" if strange else ""
    facts = [{"path": str(found.path), "why": found.why, "removed": found in removed} for found in strange]
    print_report(
        _removal_record(cache, bad) | {"strangers": facts},
        [*lines, f"{len(bad)} damaged{others}, {_left(cache)}"],
        args,
    )
    return DAMAGED if bad or strange else 0


def _summary(items: Sequence[Item]) -> dict[str, Any]:
    """Number, bytes, and the seconds since the last and the longest unused of them were used."""
    ages = [max(0.0, time.time() - item.used) for item in items]
    nbytes = sum(item.nbytes for item in items)
    return {"entries": len(items), "bytes": nbytes, "newest": min(ages, default=0.0), "oldest": max(ages, default=0.0)}


def _removal_record(cache: Cache, removed: Sequence[Item]) -> dict[str, Any]:
    entries = [{"kind": item.kind, "path": str(item.path), "bytes": item.nbytes} for item in removed]
    left = cache.items()
    return {"removed": entries, "entries": len(left), "bytes": sum(item.nbytes for item in left)}


def _kind_row(kind: str, summary: dict[str, Any]) -> tuple[str, ...]:
    ages = age_text(summary["newest"]), age_text(summary["oldest"])
    return kind, str(summary["entries"]), size_text(summary["bytes"]), *ages


def _describe_items(items: Sequence[Item]) -> str:
    entries = "1 entry" if len(items) == 1 else f"{len(items)} entries"
    return f"{entries} of {size_text(sum(item.nbytes for item in items))}"


def _left(cache: Cache) -> str:
    return f"{_describe_items(cache.items())} left in {cache.folder}"


if __name__ == "__main__":
    raise SystemExit(main(None))
