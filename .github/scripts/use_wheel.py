"""Use an installed hf_mixers as a user would: import it, load a model by name, run it once."""

from importlib.metadata import version
from importlib.resources import files

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

import hf_mixers

package = files("hf_mixers")
if not (package / "py.typed").is_file() or not (package / "reporting").is_dir():
    raise SystemExit(f"{package} is not complete.")
if version("hf-mixers") != hf_mixers.__version__:
    raise SystemExit(f"The wheel has {version('hf-mixers')}, the package {hf_mixers.__version__}.")

tokenizer = hf_mixers.DnaTokenizer()
batch = tokenizer(["GATTACA", "ACG"], padding=True, return_tensors="pt")
for family in hf_mixers.FAMILIES:
    config = AutoConfig.for_model(family, vocab_size=len(tokenizer), num_labels=3)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():
        logits = model(**batch).logits
    if logits.shape != (2, 3) or not logits.isfinite().all():
        raise SystemExit(f"{family} gave logits of shape {tuple(logits.shape)}: {logits}")
    print(f"{family}: {tuple(logits.shape)}")
print(f"hf_mixers {hf_mixers.__version__} works from {package}")
