"""What a `Trainer` publishes: the files that `hf_mixers.publish` lists, and nothing else."""

import tempfile
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, HfApi
from transformers import Trainer
from transformers.trainer_utils import HubStrategy
from transformers.utils import PushInProgress, logging

from .._compat import wait_for_push
from ..publish import PUBLISHED, RESUMED, stage_files

logger = logging.get_logger(__name__)

# in every card that Trainer writes itself
TRAINERS_OWN = "generated_from_trainer"


class PublishingTrainer(Trainer):
    """`Trainer` whose pushes hold model, tokenizer, card, results and plots only.

    Never pushed: `training_args.bin`, which holds the token, sub-folders, links, and whatever else
    lies in the output folder. Tokens and paths of the machine are taken out of what is pushed.
    """

    push_in_progress: Any

    def push_to_hub(  # type: ignore[override]  # Trainer says less than it returns
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        **kwargs: Any,
    ) -> CommitInfo | Future[CommitInfo] | None:
        """Save the model and publish it; arguments and result are those of `Trainer`.

        A card that the Trainer has not written itself stays as it is.
        """
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        token = token if token is not None else self.args.hub_token
        if self.hub_model_id is None:
            self.init_hf_repo(token=token)
        self.save_model(_internal_call=True)
        if not self.is_world_process_zero():
            return None
        folder = Path(self.args.output_dir)
        if _is_trainers_own(folder / "README.md"):
            name = (self.args.hub_model_id or folder.absolute().name).rpartition("/")[2]
            self.create_model_card(**{"model_name": name, **kwargs})
        job = self._push_folder(commit_message, token, revision)
        return job.result() if blocking else job

    def push_folder(self, commit_message: str) -> CommitInfo:
        """Publish the output folder as it is; only the first of several processes may call it."""
        return self._push_folder(commit_message).result()

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Push the model of a checkpoint in the background, as `hub_strategy` asks."""
        if not self.is_world_process_zero() or self.args.hub_strategy == HubStrategy.END:
            return
        busy = self.push_in_progress is not None and not self.push_in_progress.is_done()
        if busy and not self.args.hub_always_push:
            return
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        try:
            jobs = self._push_model_and_state(Path(checkpoint_folder))
        except ValueError as error:
            # a training is worth more than a copy of it in between
            logger.warning(f"The checkpoint is not pushed: {error}")
            return
        if busy:
            self.push_in_progress.jobs.extend(jobs)
        else:
            self.push_in_progress = PushInProgress(jobs)  # type: ignore[arg-type]  # a list is fine

    def _push_folder(
        self, message: str | None, token: str | None = None, revision: str | None = None
    ) -> Future[CommitInfo]:
        wait_for_push(self)
        return self._push_files(Path(self.args.output_dir), PUBLISHED, message, token, revision)

    def _push_model_and_state(self, folder: Path) -> list[Future[CommitInfo]]:
        """Push the model of a checkpoint and, if asked for, what resuming from it takes."""
        strategy = self.args.hub_strategy
        message = f"Training in progress, step {self.state.global_step}"
        jobs = [self._push_files(folder, PUBLISHED, message)]
        if strategy in (HubStrategy.CHECKPOINT, HubStrategy.ALL_CHECKPOINTS):
            place = "last-checkpoint" if strategy == HubStrategy.CHECKPOINT else folder.name
            names = (*PUBLISHED, *RESUMED)
            jobs.append(self._push_files(folder, names, f"{message}, checkpoint", to=place))
        return jobs

    @cached_property
    def _hub(self) -> HfApi:
        """One client, which pushes one commit after the other."""
        return HfApi()

    def _push_files(
        self,
        folder: Path,
        names: tuple[str, ...],
        message: str | None,
        token: str | None = None,
        revision: str | None = None,
        to: str | None = None,
    ) -> Future[CommitInfo]:
        """Copy the files now, as training goes on in their folder, and push in the background."""
        place = tempfile.TemporaryDirectory()
        try:
            stage_files(folder, place.name, names)
        except BaseException:
            place.cleanup()
            raise

        def push() -> CommitInfo:
            with place:
                return self._hub.upload_folder(
                    repo_id=self.hub_model_id,
                    folder_path=place.name,
                    path_in_repo=to,
                    commit_message=message,
                    token=token if token is not None else self.args.hub_token,
                    revision=revision if revision is not None else self.args.hub_revision,
                )

        return self._hub.run_as_future(push)


def _is_trainers_own(card: Path) -> bool:
    """Whether there is no card but one that a Trainer has written."""
    return not card.is_file() or TRAINERS_OWN in card.read_text(encoding="utf-8")
