"""LoRA adapters: attach, train, save, reload, merge."""

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from tests.families import every_family, example_inputs

HEADS = {
    "masked_lm": ["lm_head"],
    "sequence_classification": ["classifier"],
    "token_classification": ["classifier"],
    "sequence_pair_classification": ["dense", "classifier"],
}


@every_family
@pytest.mark.parametrize("head", HEADS)
def test_adapters_train_alone_and_survive_saving_and_merging(row, head, tmp_path):
    base = row.build(head)
    frozen = {name: p.clone() for name, p in base.named_parameters()}
    lora = LoraConfig(r=4, target_modules="all-linear", modules_to_save=HEADS[head])
    model = get_peft_model(base, lora).train()
    inputs = example_inputs(head)
    learning = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learning, lr=row.learning_rate)
    for _ in range(2):
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    expected = model.eval()(**inputs).logits
    for name, parameter in base.named_parameters():
        original = name.replace(".base_layer", "").replace(".original_module", "")
        if original in frozen and "modules_to_save" not in name:
            assert torch.equal(parameter, frozen[original]), name

    model.save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(row.build(head), tmp_path).eval()
    torch.testing.assert_close(again(**inputs).logits, expected)
    assert not torch.allclose(row.build(head)(**inputs).logits, expected)
    merged = again.merge_and_unload()
    torch.testing.assert_close(merged(**inputs).logits, expected, atol=1e-4, rtol=1e-4)
