"""Message definitions as text, found where ROS installs them, so that a bag describes itself. Pure file reading, no ROS."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from vlatools.core import VlatoolsError

_SEPARATOR = "=" * 80
_FIELD = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_/]*)(?:<=\d+)?(?:\[[^\]]*\])?\s+[A-Za-z]")
_PRIMITIVES = frozenset(
    ("bool", "byte", "char", "float32", "float64", "string", "wstring", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))
)


class UnknownType(VlatoolsError):
    """The definition of a message type is not installed."""


@dataclass(frozen=True)
class TypeSchema:
    """A message type's definition.

    Attributes:
        name: e.g. ``sensor_msgs/msg/JointState``.
        text: its definition and those of all types within it, in MCAP's ``ros2msg`` form.
        hash: RIHS01 type hash, "" where the installation does not hold it.
    """

    name: str
    text: str
    hash: str


def _own_share(package: str) -> tuple[Path, ...]:
    """The share folder of the very installation that Python imports ``package`` from: definition and code then agree."""
    spec = importlib.util.find_spec(package)
    parents = Path(spec.origin).parents if spec is not None and spec.origin else ()
    return tuple(folder / "share" for folder in parents if (folder / "share" / package).is_dir())[:1]


def share_folders() -> tuple[Path, ...]:
    """Folders that may hold ``<package>/msg/*.msg``: the sourced workspaces, then this Python's prefix."""
    prefixes = [p for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p] + [sys.prefix]
    return tuple(dict.fromkeys(Path(prefix) / "share" for prefix in prefixes))


def schema(type_name: str, folders: Iterable[Path] | None = None) -> TypeSchema:
    """Definition of ``package/msg/Name``.

    Raises:
        UnknownType: the type, or one within it, is not installed in any of ``folders``.
    """
    return _schema(type_name, share_folders() if folders is None else tuple(folders))


@lru_cache(maxsize=256)
def _schema(type_name: str, folders: tuple[Path, ...]) -> TypeSchema:
    path = _find(type_name, folders)
    texts: dict[str, str] = {}
    _collect(type_name, folders, texts)
    parts = [texts.pop(type_name)]
    for name, text in texts.items():
        package, _, short = name.split("/")
        parts += [_SEPARATOR, f"MSG: {package}/{short}", text]
    return TypeSchema(type_name, "\n".join(parts), _type_hash(path.with_suffix(".json"), type_name))


def _collect(type_name: str, folders: tuple[Path, ...], texts: dict[str, str]) -> None:
    if type_name in texts:
        return
    text = _find(type_name, folders).read_text(encoding="utf-8")
    texts[type_name] = text
    package = type_name.split("/")[0]
    for line in text.splitlines():
        match = _FIELD.match(line.split("#", 1)[0])
        if match is None or match.group(1) in _PRIMITIVES:
            continue
        parts = match.group(1).split("/")
        if parts == ["Header"]:
            parts = ["std_msgs", "Header"]
        owner = parts[0] if len(parts) > 1 else package
        _collect(f"{owner}/msg/{parts[-1]}", folders, texts)


def _find(type_name: str, folders: tuple[Path, ...]) -> Path:
    parts = type_name.split("/")
    if len(parts) != 3 or parts[1] != "msg":
        raise UnknownType(f"'{type_name}' is no message type: write it as package/msg/Name")
    for folder in (*_own_share(parts[0]), *folders):
        path = folder / parts[0] / "msg" / f"{parts[2]}.msg"
        if path.is_file():
            return path
    raise UnknownType(
        f"the definition of {type_name} is in none of {[str(f) for f in folders]}: install its package or source its workspace"
    )


def _type_hash(path: Path, type_name: str) -> str:
    try:
        hashes = json.loads(path.read_text(encoding="utf-8"))["type_hashes"]
    except (OSError, ValueError, KeyError):
        return ""
    return next((entry["hash_string"] for entry in hashes if entry["type_name"] == type_name), "")
