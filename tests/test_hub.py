"""Round trips through a Hub with the real client: models, tokenizers, cards, revisions, code.

The client reads the address of the Hub when it is imported: every scenario has its own process.
"""

import json
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from hf_mixers import FAMILIES
from tests.examples.example_runs import FOLDER as EXAMPLES
from tests.hub.server import serve

pytestmark = pytest.mark.processes

# the others are tested in `make exhaustive`
MAIN_FAMILIES = ("chordmixer",)
SOME_FAMILIES = [
    name if name in MAIN_FAMILIES else pytest.param(name, marks=pytest.mark.exhaustive)
    for name in FAMILIES
]


@pytest.fixture
def hub(tmp_path):
    """Environment of a process that talks to a Hub on this machine."""
    server = serve(tmp_path / "hub")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_TOKEN": "hf_local",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": str(tmp_path / "home"),
        "HF_MODULES_CACHE": str(tmp_path / "modules"),
    }
    server.shutdown()
    server.server_close()


def run(script: str, environment: dict[str, str], folder, *arguments: str) -> str:
    """Output of a script run in `folder`, where hf_mixers is found only if installed."""
    done = subprocess.run(
        [sys.executable, *arguments, "-c", textwrap.dedent(script)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_numbers(output: str) -> list[np.ndarray]:
    """The list of numbers at the end of each line; another process may round them otherwise."""
    return [np.ravel(json.loads(line[line.index("[") :])) for line in output.splitlines()]


PUSH = """
    import sys, torch, hf_mixers
    from huggingface_hub import HfApi, ModelCard, ModelCardData
    from transformers import AutoModelForSequenceClassification
    from hf_mixers import FAMILIES, DnaTokenizer
    family = FAMILIES["{family}"]
    for number, revision in enumerate([None, "second"]):
        torch.manual_seed(number)
        model = family.models[AutoModelForSequenceClassification](
            family.config(max_position_embeddings=64, id2label={{0: "Bos", 1: "Sus"}})
        ).eval()
        if revision:
            HfApi().create_branch("local/mixer", branch=revision)
        model.push_to_hub("local/mixer", revision=revision)
        print(model(torch.tensor([[5, 6, 7]])).logits.tolist())
    DnaTokenizer(add_cls=True).push_to_hub("local/mixer")
    data = ModelCardData(license="apache-2.0", library_name="transformers")
    card = ModelCard.from_template(data, template_str="---\\n{{{{ card_data }}}}\\n---\\n# A mixer")
    card.push_to_hub("local/mixer")
    HfApi().create_tag("local/mixer", tag="v1")
"""

PULL = """
    import torch, hf_mixers
    from huggingface_hub import ModelCard
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline
    for revision in ("main", "second", "v1"):
        model = AutoModelForSequenceClassification.from_pretrained("local/mixer", revision=revision)
        assert type(model).__module__.startswith("hf_mixers"), type(model)
        print(model.eval()(torch.tensor([[5, 6, 7]])).logits.tolist())
    tokenizer = AutoTokenizer.from_pretrained("local/mixer")
    assert isinstance(tokenizer, hf_mixers.DnaTokenizer)
    assert tokenizer("AC").input_ids == [2, 5, 6]
    answer = pipeline("text-classification", "local/mixer")("ACGTAC")
    assert answer[0]["label"] in ("Bos", "Sus")
    card = ModelCard.load("local/mixer")
    assert card.data.license == "apache-2.0" and "# A mixer" in card.text
"""


@pytest.mark.parametrize("family", SOME_FAMILIES)
def test_models_tokenizers_cards_and_revisions_round_trip(hub, tmp_path, family):
    main, second = read_numbers(run(PUSH.format(family=family), hub, tmp_path))
    pulled = read_numbers(run(PULL, hub, tmp_path))
    assert np.concatenate(pulled) == pytest.approx(np.concatenate([main, second, main]), rel=1e-5)


PUSH_WITH_CODE = """
    import torch, hf_mixers
    from hf_mixers import FAMILIES, DnaTokenizer, push_with_code
    family = FAMILIES["{family}"]
    for model_class in family.model_classes():
        # needs another configuration, and the tests of its family show that it is published
        if "Image" in model_class.__name__:
            continue
        torch.manual_seed(0)
        causal = {{"causal": True}} if "Causal" in model_class.__name__ else {{}}
        model = model_class(family.config(max_position_embeddings=64, **causal)).eval()
        push_with_code("local/" + model_class.__name__, model, DnaTokenizer(), private=True)
        ids = torch.tensor([[5, 6, 7]])
        second = {{"input_ids_2": ids}} if "Pair" in model_class.__name__ else {{}}
        print(model_class.__name__, model(ids, **second)[0].flatten()[:4].tolist())
    # publishing with code must leave nothing behind in the classes
    model.push_to_hub("local/plain")
    assert not hasattr(model.config, "auto_map")
"""

PULL_WITH_CODE = """
    import sys
    sys.modules["hf_mixers"] = None
    import torch, transformers
    from huggingface_hub import list_repo_files
    from transformers import AutoConfig, AutoTokenizer
    from transformers.dynamic_module_utils import get_class_from_dynamic_module
    autos = {{
        "Model": "AutoModel",
        "ForMaskedLM": "AutoModelForMaskedLM",
        "ForSequenceClassification": "AutoModelForSequenceClassification",
        "ForTokenClassification": "AutoModelForTokenClassification",
        "ForCausalLM": "AutoModelForCausalLM",
    }}
    ids = torch.tensor([[5, 6, 7]])
    for name in {names!r}:
        repo = "local/" + name
        head = name.removeprefix({prefix!r})
        if head in autos:
            auto = getattr(transformers, autos[head])
            model = auto.from_pretrained(repo, trust_remote_code=True)
            second = {{}}
        else:
            config = AutoConfig.from_pretrained(repo, trust_remote_code=True)
            reference = config.auto_map["Auto" + "Model" + head].split("--")[-1]
            model = get_class_from_dynamic_module(reference, repo).from_pretrained(repo)
            second = {{"input_ids_2": ids}}
        assert type(model).__module__.startswith("transformers_modules"), type(model)
        print(name, model.eval()(ids, **second)[0].flatten()[:4].tolist())
        tokenizer = AutoTokenizer.from_pretrained(repo, trust_remote_code=True)
        assert type(tokenizer).__name__ == "DnaTokenizer"
        assert tokenizer("ACGU").input_ids == [5, 6, 7, 8]
        # the checkpoint of one head loads as any other
        other = transformers.AutoModelForSequenceClassification.from_pretrained(
            repo, trust_remote_code=True
        )
        assert type(other).__name__.endswith("ForSequenceClassification")
    assert not [file for file in list_repo_files("local/plain") if file.endswith(".py")]
"""


@pytest.mark.parametrize("family", SOME_FAMILIES)
def test_checkpoints_with_code_load_without_the_package_for_every_head(hub, tmp_path, family):
    pushed = run(PUSH_WITH_CODE.format(family=family), hub, tmp_path)
    names = [line.split(" ", 1)[0] for line in pushed.splitlines()]
    assert len(names) == len(FAMILIES[family].model_classes()) - (family == "mrsformer")
    prefix = names[0].removesuffix("Model")
    pulled = run(PULL_WITH_CODE.format(names=names, prefix=prefix), hub, tmp_path)
    assert [line.split(" ", 1)[0] for line in pulled.splitlines()] == names
    for ours, theirs in zip(read_numbers(pushed), read_numbers(pulled), strict=True):
        assert theirs == pytest.approx(ours, rel=1e-5)


def test_the_package_prefers_its_own_code(hub, tmp_path):
    run(PUSH_WITH_CODE.format(family="chordmixer"), hub, tmp_path)
    run(
        """
        import hf_mixers
        from transformers import AutoModel
        model = AutoModel.from_pretrained("local/ChordMixerModel", trust_remote_code=True)
        assert isinstance(model, hf_mixers.ChordMixerModel)
        """,
        hub,
        tmp_path,
    )


def test_a_branch_can_be_published_with_code(hub, tmp_path):
    run(
        """
        import hf_mixers
        from hf_mixers import ChordMixerConfig, ChordMixerModel, push_with_code
        from huggingface_hub import ModelCard, list_repo_files
        model = ChordMixerModel(ChordMixerConfig(max_position_embeddings=16))
        card = ModelCard("---\\nlicense: apache-2.0\\n---\\n# A card\\n")
        url = push_with_code("local/branch", model, card=card, revision="dev")
        assert "local/branch" in url
        assert "config.json" in list_repo_files("local/branch", revision="dev")
        assert "README.md" in list_repo_files("local/branch", revision="dev")
        assert "config.json" not in list_repo_files("local/branch")
        """,
        hub,
        tmp_path,
    )


def test_an_example_publishes_its_results_with_the_model(hub, tmp_path):
    main = f"""
        import runpy, sys
        sys.argv = [
            "adding_problem.py", "--num_train", "32", "--num_eval", "16", "--num_test", "16",
            "--longest", "300", "--num_train_epochs", "1", "--output_dir",
            {str(tmp_path / "run")!r}, "--push_to_hub", "true", "--hub_model_id", "local/adding",
        ]
        runpy.run_path({str(EXAMPLES / "adding_problem.py")!r}, run_name="__main__")
    """
    run(main, {**hub, "OMP_NUM_THREADS": "1"}, tmp_path)
    look = """
        from huggingface_hub import HfApi, ModelCard
        print(*HfApi().list_repo_files("local/adding"))
        print("## How to use" in ModelCard.load("local/adding").text)
    """
    files, has_card = run(look, hub, tmp_path).splitlines()
    assert {"metrics.json", "scatter.png", "model.safetensors"} <= set(files.split())
    assert not {"training_args.bin", "predictions.csv", "run.lock"} & set(files.split())
    assert not any("checkpoint-" in file for file in files.split())
    assert has_card == "True"
