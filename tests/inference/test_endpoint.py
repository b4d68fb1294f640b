"""The handler of an Inference Endpoint answers as the functions of the package do."""

import importlib.util
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from hf_mixers import DnaTokenizer
from hf_mixers.inference import embed, predict
from hf_mixers.inference.loading import load_masked_lm, make_engine
from hf_mixers.inference.masked import predict_masked
from hf_mixers.publish import publish_folder, write_endpoint


@pytest.fixture
def load_handler(monkeypatch, tmp_path):
    """The handler of what is published of a folder, as an endpoint makes it."""

    def publish(folder):
        def keep(place, *rest):
            for path in map(tmp_path.__class__, [place]):
                for file in path.iterdir():
                    (tmp_path / file.name).write_bytes(file.read_bytes())
            return type("Commit", (), {"commit_url": "https://hub/commit"})

        monkeypatch.setattr("hf_mixers.publish._push", keep)
        publish_folder(folder, "me/model", endpoint=True)
        spec = importlib.util.spec_from_file_location("handler", tmp_path / "handler.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.EndpointHandler(str(tmp_path))

    return publish


def test_a_classifier_answers(load_handler, classifier, tmp_path):
    handler = load_handler(classifier)
    assert "hf-mixers>=" in (tmp_path / "requirements.txt").read_text()
    answers = handler({"inputs": ">a\nACGT\nAC\n>b\nAC*T\n"})
    assert json.loads(json.dumps(answers)) == answers
    (expected, _) = predict(classifier, [("a", "ACGTAC"), ("b", "AC*T")])
    assert (answers[0]["id"], answers[0]["label"]) == ("a", expected.label)
    assert answers[0]["scores"] == pytest.approx(expected.scores, abs=1e-5)
    assert answers[1] == {"id": "b", "length": 4, "note": "letter '*'"}
    vectors = handler({"inputs": ["ACGTAC"], "parameters": {"task": "embed", "pooling": "max"}})
    (one,) = embed(classifier, ["ACGTAC"], pooling="max")
    assert np.abs(np.array(vectors[0]["vector"]) - one.vector).max() < 1e-5


def test_answers_of_both_strands_are_asked_for_by_a_parameter(load_handler, classifier):
    handler = load_handler(classifier)
    parameters = {"both_strands": True}
    here, there = handler({"inputs": ["ACGGTAC", "GTACCGT"], "parameters": parameters})
    (expected,) = predict(classifier, ["ACGGTAC"], rc_average=True)
    assert here["scores"] == pytest.approx(expected.scores, abs=1e-5)
    assert here["scores"] == pytest.approx(there["scores"], abs=1e-5)
    with pytest.raises(ValueError, match="both_strands must be true or false, got 1"):
        handler({"inputs": "ACGT", "parameters": {"both_strands": 1}})


@pytest.mark.slow
def test_a_masked_language_model_fills_masks_and_embeds(load_handler, masked_lm):
    handler = load_handler(masked_lm)
    text = "ACG[MASK]TTG[MASK]"
    answers = handler({"inputs": text})
    assert [one["position"] for one in answers] == [4, 8]
    tokenizer = AutoTokenizer.from_pretrained(masked_lm)
    with torch.no_grad():
        logits = AutoModelForMaskedLM.from_pretrained(masked_lm)(
            **tokenizer(text, return_tensors="pt")
        ).logits
    bases = logits[0, 3, tokenizer.convert_tokens_to_ids(list("ACGT"))].softmax(-1)
    assert list(answers[0]["scores"].values()) == pytest.approx(bases.tolist(), abs=1e-5)
    assert len(handler({"inputs": "ACGT"})[0]["vector"]) > 1


def test_positions_do_not_count_a_cls_token(masked_lm):
    engine = make_engine(masked_lm, DnaTokenizer(add_cls=True), load_masked_lm, {})
    found = predict_masked(engine, [("a", "[MASK]C"), ("b", "ACG[MASK]")])
    assert [(one.id, one.position) for one in found] == [("a", 1), ("b", 4)]
    assert all(sum(one.scores.values()) == pytest.approx(1) for one in found)
    for text, message in (("ACGT", r"has no \[MASK\]"), ("A*[MASK]", "cannot be read: letter")):
        with pytest.raises(ValueError, match=message):
            predict_masked(engine, [("a", text)])


def test_masked_bases_are_guessed_from_both_strands(masked_lm):
    tokenizer = DnaTokenizer(add_cls=True)
    engine = make_engine(masked_lm, tokenizer, load_masked_lm, {})
    engines = (engine, replace(engine, both_strands=True))
    # reverse complements of each other
    texts = [("a", "AC[MASK]GT[MASK]TTA"), ("b", "TAA[MASK]AC[MASK]GT")]
    one, both = ([masked.scores for masked in predict_masked(e, texts)] for e in engines)
    partners = dict(zip("ACGT", "TGCA", strict=True))
    # each of the four places, and where it is in the other text
    for here, there in enumerate((3, 2, 1, 0)):
        mean = {x: (one[here][x] + one[there][partners[x]]) / 2 for x in "ACGT"}
        assert both[here] == pytest.approx(mean, abs=1e-6)
        assert both[here] != pytest.approx(one[here], abs=1e-4)


def test_wrong_requests_are_named(load_handler, classifier, tmp_path):
    handler = load_handler(classifier)
    for request, message in (
        ({}, "A request has 'inputs', got nothing"),
        ({"inputs": 3}, "inputs must be a text or a list of texts, got int"),
        ({"inputs": []}, "at least one sequence, got none"),
        ({"inputs": "A", "parameters": {"task": "sing"}}, "task must be one of embed, predict"),
        ({"inputs": "A", "parameters": {"layer": 1}}, "'layer' is not a parameter of predict"),
        ({"inputs": "A" * 10_000_001}, "10,000,001 letters were sent"),
    ):
        with pytest.raises(ValueError, match=message):
            handler(request)
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match="has no tokenizer, which an endpoint"):
        write_endpoint(tmp_path)
