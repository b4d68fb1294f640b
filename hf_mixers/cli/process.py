"""A process that serves the command line: what it says, and how it ends."""

import logging
import os
import sys
from collections.abc import Callable

from .._compat import is_in_process_group, leave_process_group

# set to any text, errors come with their traceback
TRACEBACK = "HF_MIXERS_TRACEBACK"
# what the library raises on purpose
EXPECTED = (ValueError, OSError, ImportError)


def run_as_script(main: Callable[[list[str]], object]) -> None:
    """Call the `main` of a script with the arguments of the command line."""
    show_log()
    with_sentence(lambda: main(sys.argv[1:]))
    finish()


def show_log() -> None:
    """Print what hf_mixers logs in the first of several processes; silence all ranks but 0."""
    if int(os.environ.get("RANK", "0")) > 0:
        import datasets

        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
        datasets.disable_progress_bars()
        return
    logger = logging.getLogger("hf_mixers")
    if not any(isinstance(handler, _Printer) for handler in logger.handlers):
        logger.addHandler(_Printer())
        logger.setLevel(logging.INFO)
        logger.propagate = False


def with_sentence(call: Callable[[], object]) -> None:
    """Call a function; an error that the library raises on purpose ends the process in a line."""
    try:
        call()
    except EXPECTED as error:
        if os.environ.get(TRACEBACK):
            raise
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"error: {message}\n({TRACEBACK}=1 shows where.)", file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def finish() -> None:
    """End the process; one of a group ends without waiting for the others."""
    if is_in_process_group():
        leave_process_group()


class _Printer(logging.Handler):
    """Prints messages to the standard output of the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), flush=True)
