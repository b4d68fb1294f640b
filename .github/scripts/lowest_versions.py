"""Print the lowest versions that pyproject.toml declares, as constraints for pip.

python .github/scripts/lowest_versions.py > lowest.txt
python .github/scripts/lowest_versions.py torch=2.13.0 > lowest.txt  # one changed
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[\w,]+\])?(>=(?P<lowest>[\w.]+))?")


def find_lowest(requirements: list[str], own_name: str) -> dict[str, str]:
    """The lower bound of every requirement but the project itself."""
    lowest = {}
    for requirement in requirements:
        parts = REQUIREMENT.match(requirement)
        if parts is None or (parts["lowest"] is None and parts["name"] != own_name):
            raise SystemExit(f"{requirement!r} has no lower bound: declare it as name>=version.")
        if parts["name"] != own_name:
            lowest[parts["name"]] = parts["lowest"]
    return lowest


def main() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    # what users install; tools of the tests and of development have the tested versions
    requirements = project["dependencies"] + extras["bio"] + extras["images"] + extras["plots"]
    lowest = find_lowest(requirements, project["name"])
    lowest |= dict(given.split("=", 1) for given in sys.argv[1:])
    print("\n".join(f"{name}=={version}" for name, version in lowest.items()))


if __name__ == "__main__":
    main()
