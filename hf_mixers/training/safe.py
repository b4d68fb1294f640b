"""`Trainer` that checks before it starts, stops at bad numbers and resumes after any kill."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import Trainer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import TrainOutput

from .._compat import checkpoint_folder
from .checkpoints import find_checkpoints, find_fault, has_optimizer, set_aside, warn_of
from .checks import check_examples, check_token_labels
from .finite import LossWatch, check_loss, check_start, check_weights


class SafeTrainer(Trainer):
    """`Trainer` without silent failures.

    - A loss that is not finite stops the training at that step, as do weights before the first and
      after the last step; `args.stop_on_nonfinite` switches this off. On an accelerator, losses
      are looked at when there is something to log, to save or to evaluate, and at the end.
    - `train(resume_from_checkpoint=True)` goes on from the newest complete checkpoint. Newer ones
      that were written half are set aside, with a warning. `"auto"` also starts where there is no
      checkpoint yet. One without state of the optimizer is an error, unless
      `args.resume_without_optimizer` allows it.
    - Empty data sets and labels that the collator does not expect are refused before the start.
    - The last step is always logged, so that short trainings have a loss in their history.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._losses = LossWatch()

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any
    ) -> TrainOutput:
        """Train, as `Trainer.train` does; `"auto"` goes on if there is something to go on from."""
        if self.args.eval_strategy != "no":
            check_examples("eval_dataset", self.eval_dataset)
        check_examples("train_dataset", self.train_dataset)
        check_token_labels(self.model, self.data_collator, self.train_dataset)
        if resume_from_checkpoint:
            resume_from_checkpoint = self._choose_checkpoint(resume_from_checkpoint)
        if not self._stops_on_nonfinite:
            return super().train(resume_from_checkpoint, *args, **kwargs)
        if resume_from_checkpoint is None and self.model is not None:
            check_start(self.model)
        self._losses = LossWatch()
        output = super().train(resume_from_checkpoint, *args, **kwargs)
        self._losses.check()
        check_weights(self.model, "after the last step")
        return output

    @property
    def _stops_on_nonfinite(self) -> bool:
        return getattr(self.args, "stop_on_nonfinite", True)

    def _choose_checkpoint(self, wanted: str | bool) -> str | None:
        """The folder to go on from; None for `"auto"` where no checkpoint is complete."""
        if wanted is True or wanted == "auto":
            found = find_checkpoints(self.args.output_dir)
            if self.is_world_process_zero():
                warn_of(found)
            # all processes must have looked before anything is renamed
            self.accelerator.wait_for_everyone()
            if self.is_world_process_zero():
                set_aside(found.broken)
            if found.newest is None:
                if wanted == "auto":
                    return None
                raise ValueError(
                    f"{self.args.output_dir} has no complete checkpoint to go on from."
                )
            checkpoint = found.newest
        else:
            checkpoint = Path(str(wanted))
            fault = find_fault(checkpoint) if checkpoint.is_dir() else "it is not a folder"
            if fault is not None:
                raise ValueError(f"{checkpoint} is not a complete checkpoint: {fault}.")
        allowed = getattr(self.args, "resume_without_optimizer", False)
        if not allowed and not has_optimizer(checkpoint):
            raise ValueError(
                f"{checkpoint} has no state of the optimizer: set resume_without_optimizer to go on"
                " with a new one."
            )
        return str(checkpoint)

    def _init_training_state(self, max_steps, updates_of_epoch, num_epochs, *args):
        begun = super()._init_training_state(max_steps, updates_of_epoch, num_epochs, *args)
        # a run that was interrupted after its last step takes no further one
        return (num_epochs, 0) if self.state.global_step >= max_steps else begun

    def _save_checkpoint(self, model, trial):
        # its last file says that a checkpoint is complete: an old one must not say so of a new one
        folder = checkpoint_folder(self, trial)
        if self.is_world_process_zero():
            (folder / TRAINER_STATE_NAME).unlink(missing_ok=True)
        super()._save_checkpoint(model, trial)

    def _maybe_log_save_evaluate(self, *args, **kwargs):
        # short trainings have a loss in their history too
        is_last = (
            self.control.should_training_stop or self.state.global_step >= self.state.max_steps
        )
        if is_last and self.args.logging_strategy != "no":
            self.control.should_log = True
        control = self.control
        if control.should_log or control.should_save or control.should_evaluate:
            self._losses.check()
        super()._maybe_log_save_evaluate(*args, **kwargs)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        # labels may be taken out of the inputs on the way
        given = dict(inputs)
        result: Any = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if model.training and self._stops_on_nonfinite:
            loss = result[0] if return_outputs else result
            step = self.state.global_step + 1
            if loss.device.type == "cpu":
                check_loss(loss, given, self.model, step)
            else:
                self._losses.see(loss, step)
        return result
