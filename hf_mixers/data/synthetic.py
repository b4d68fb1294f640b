"""The former place of the synthetic tasks, which are in `hf_mixers.tasks`."""

import warnings


def __getattr__(name: str):
    from ..tasks import synthetic

    if name.startswith("_") or not hasattr(synthetic, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"hf_mixers.data.synthetic.{name} is deprecated: import it from hf_mixers.tasks.",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(synthetic, name)
