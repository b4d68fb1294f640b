"""Code for a card: how to load a model and call it."""

import inspect
from collections.abc import Sequence

from transformers import PreTrainedModel

from ..auto import FAMILIES, AutoModelForSequencePairClassification, find_auto_class

# what a model that is not of this package reads, as code for two examples
_IMAGE = "torch.randn(2, {channels}, {size}, {size})"


def usage_code(model: PreTrainedModel, examples: Sequence[str], has_tokenizer: bool) -> str:
    """Python that loads a model from the folder of its card and calls it with two examples.

    Args:
        examples: Texts for the tokenizer.
        has_tokenizer: A model that reads tokens lies next to its tokenizer.
    """
    auto = find_auto_class(model)
    name = (auto or type(model)).__name__
    has_tokenizer = has_tokenizer and _main_input(model) == "input_ids"
    is_pair = auto is AutoModelForSequencePairClassification or (
        "input_ids_2" in inspect.signature(model.forward).parameters
    )
    inputs = _input_lines(model, examples, has_tokenizer)
    if inputs and is_pair:
        inputs.append('inputs |= {f"{name}_2": value for name, value in inputs.items()}')
        if getattr(model.config, "num_tasks", None) is not None:
            inputs.append('inputs["task_ids"] = torch.tensor([0, 0])')
    lines = [
        *_import_lines(model, name, is_pair, has_tokenizer, needs_torch=bool(inputs)),
        "",
        'checkpoint = "."  # the folder of this card, or the name of its repository',
        f"model = {name}.from_pretrained(checkpoint).eval()",
        *inputs,
    ]
    if inputs:
        # models without a head give hidden states
        is_bare = model.base_model is model
        field = "last_hidden_state" if is_bare else "logits"
        lines += [
            "with torch.no_grad():",
            f"    output = model(**inputs).{field}",
            "print(output.shape)",
        ]
    return "\n".join(lines)


def _import_lines(
    model: PreTrainedModel, name: str, is_pair: bool, has_tokenizer: bool, needs_torch: bool
) -> list[str]:
    module = type(model).__module__
    # where the class, or what registers it with the Auto classes, is imported from
    package = module.partition(".")[0]
    if package == "hf_mixers" and model.config.model_type not in FAMILIES:
        package = module
    is_of_transformers = not is_pair
    if find_auto_class(model) is None:
        is_of_transformers = package == "transformers"
    names = [name] * is_of_transformers + ["AutoTokenizer"] * has_tokenizer
    lines = ["import torch"] if needs_torch else []
    if names:
        lines.append(f"from transformers import {', '.join(names)}")
    if package.startswith("hf_mixers") and (package == "hf_mixers" or is_of_transformers):
        lines += ["", f"import {package}  # registers the Auto classes"]
    if not is_of_transformers:
        lines.append(f"from {package} import {name}")
    return lines


def _input_lines(model: PreTrainedModel, examples: Sequence[str], has_tokenizer: bool) -> list[str]:
    """Code that makes `inputs`; none for a model about whose inputs nothing is known."""
    config = model.config
    if has_tokenizer:
        arguments = {"padding": True}
        if hasattr(config, "tokenizer_arguments"):
            arguments = config.tokenizer_arguments()
        options = ", ".join(f"{name}={_quote(value)}" for name, value in arguments.items())
        return [
            "tokenizer = AutoTokenizer.from_pretrained(checkpoint)",
            f"texts = [{', '.join(map(_quote, examples))}]",
            f'inputs = tokenizer(texts, {options}, return_tensors="pt")',
        ]
    made_up = config.example_inputs() if hasattr(config, "example_inputs") else _example(model)
    if not made_up:
        return []
    return [
        f"inputs = {{{', '.join(f'{_quote(name)}: {code}' for name, code in made_up.items())}}}"
    ]


def _example(model: PreTrainedModel) -> dict[str, str]:
    """Made-up inputs of a model of transformers, where its config says enough."""
    config, name = model.config, _main_input(model)
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", 3)
    if name == "input_ids" and getattr(config, "vocab_size", None):
        return {name: f"torch.randint({config.vocab_size}, (2, 10))"}
    if name == "pixel_values" and isinstance(size, int):
        return {name: _IMAGE.format(channels=channels, size=size)}
    return {}


def _main_input(model: PreTrainedModel) -> str:
    return getattr(model.config, "main_input", model.main_input_name)


def _quote(value: bool | int | str) -> str:
    """Code of a value, with the quotes of our style."""
    if not isinstance(value, str):
        return repr(value)
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
