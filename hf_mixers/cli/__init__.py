"""The command line `hf-mixers`: options in, messages and exit codes out, nothing else."""

from .process import run_as_script

__all__ = ["run_as_script"]
