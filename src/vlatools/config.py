"""Configuration files: YAML into frozen dataclasses, checked at load. An error names file, key, value, limit and fix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from vlatools.core.errors import ConfigError

T = TypeVar("T")


def load(cls: type[T], path: str | os.PathLike[str]) -> T:
    """Read a YAML file into a dataclass.

    Args:
        cls: frozen dataclass; unknown keys are refused where it says so (``__pydantic_config__``).
        path: YAML file; an empty one gives the defaults.

    Raises:
        ConfigError: no such file, bad YAML, unknown key, wrong type, or a value that the dataclass refuses.
    """
    file = Path(path)
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file; the shipped files are in {config_root()}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from error
    return parse(cls, data if data is not None else {}, str(file))


def parse(cls: type[T], data: Any, source: str) -> T:
    """Check plain data (as YAML or JSON gives it) against a dataclass; ``source`` names it in errors. Raises ConfigError."""
    try:
        return TypeAdapter(cls).validate_python(data)
    except ValidationError as error:
        lines = [f"{'.'.join(str(part) for part in e['loc']) or 'file'}: {_explain(e)}" for e in error.errors()]
        raise ConfigError(f"{source}: " + "; ".join(lines)) from error
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def _explain(error: Any) -> str:
    """One line for a person from a pydantic error."""
    if error["type"] == "unexpected_keyword_argument":
        return "unknown key: check the spelling or remove it"
    if error["type"] == "missing":
        return "missing: add it"
    return f"{error['msg']} (got {error.get('input')!r})"


def share_root() -> Path:
    """Folder that holds ``config``, ``calibration``, ``launch`` and ``urdf``: the installed share folder, else the repository."""
    override = os.environ.get("VLATOOLS_SHARE")
    if override:
        return Path(override)
    repository = Path(__file__).resolve().parents[2]
    if (repository / "config" / "franka.yaml").is_file():
        return repository
    from ament_index_python.packages import get_package_share_directory

    return Path(get_package_share_directory("vlatools"))


def config_root() -> Path:
    """Folder of the shipped configuration files."""
    return share_root() / "config"


def find_config(name: str) -> Path:
    """A configuration file by absolute path, by path from here, or by its name in the shipped folder.

    Raises:
        ConfigError: there is none; names what is there.
    """
    for candidate in (Path(name), config_root() / name, share_root() / name):
        if candidate.is_file():
            return candidate.resolve()
    folder = (share_root() / name).parent if "/" in name and not Path(name).is_absolute() else config_root()
    have = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.yaml"))
    raise ConfigError(f"no file {name!r}; in {folder} there is: {', '.join(have) or 'nothing'}")
