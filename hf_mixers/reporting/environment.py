"""Where and with what a run was made."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ("torch", "transformers", "huggingface_hub", "datasets", "numpy", "scikit-learn")


def run_environment(seed: int | None = None) -> dict:
    """Versions, machine and seed of this run, ready for JSON.

    >>> environment = run_environment(seed=7)
    >>> environment["seed"], environment["versions"]["torch"] == torch.__version__
    (7, True)
    """
    # not at the top: the package imports this file
    from .. import __version__

    versions = {"python": platform.python_version(), "hf_mixers": __version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    # with its build, which the installed distribution does not always tell
    versions["torch"] = str(torch.__version__)
    machine = {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        machine["gpus"] = [
            torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())
        ]
    return {"versions": versions, "machine": machine, "seed": seed}


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
