"""What pyproject.toml cannot say: the files that make this folder a ROS package (colcon installs them)."""

from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
SHARED_FOLDERS = ("launch", "config", "urdf", "calibration")


def data_files() -> list[tuple[str, list[str]]]:
    """Each installed folder with its files, as paths relative to this folder."""
    files = [
        ("share/ament_index/resource_index/packages", ["resource/vlatools"]),
        ("share/vlatools", ["package.xml"]),
        ("lib/vlatools", sorted(str(path.relative_to(ROOT)) for path in (ROOT / "scripts/ros").iterdir() if path.name != "run")),
    ]
    for top in SHARED_FOLDERS:
        for folder in sorted({path.parent for path in (ROOT / top).rglob("*") if path.is_file() and "__pycache__" not in path.parts}):
            relative = folder.relative_to(ROOT)
            names = sorted(str(relative / path.name) for path in folder.iterdir() if path.is_file())
            files.append((f"share/vlatools/{relative}", names))
    return files


if __name__ == "__main__":
    setup(data_files=data_files())
