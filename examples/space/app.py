"""A page to try models of DNA in a browser: classes, masked bases, variants.

    python examples/space/app.py

`HF_MIXERS_CLASSIFIER` and `HF_MIXERS_MASKED_LM` name models by folder or Hub name; a tab is shown
for what there is a model for. Programs use the same functions through MCP, at
`/gradio_api/mcp/sse`.
"""

import os
from pathlib import Path
from typing import Any

import functions
import gradio as gr

# of the project, when the page runs in it
DEFAULT = Path(__file__).resolve().parents[2] / "model_cards" / "chordmixer-microbes"
EXAMPLE = ">an example\nATGAAACGCATTAGCACCACCATTACCACCACCATCACCATTACCACAGGTAACGGTGCGGGCTGA"
MASKED = "ATGAAACGCATTAGCACC[MASK]CCATTACCACCACCATCACC[MASK]TTACCACAGG"
OK = "Done."


def make_page(models: functions.Models) -> gr.Blocks:
    """The page for some models."""
    with gr.Blocks(title="hf_mixers", analytics_enabled=False) as page:
        gr.Markdown("# Models of DNA\nSequences of any lengths; nothing leaves this server.")
        if models.classifier:
            with gr.Tab("Classify", id="classify"):
                add_classifier(models)
        if models.masked_lm:
            with gr.Tab("Masked bases", id="masked"):
                add_masked(models)
            with gr.Tab("Variants", id="variants"):
                add_variants(models)
    return page


def add_classifier(models: functions.Models) -> None:
    """The tab with class probabilities and what they rest on."""

    def classify(text: str, file: str | None = None) -> tuple[str, dict[str, Any], Any]:
        """Class probabilities of DNA sequences, and the bases that they rest on.

        Args:
            text: FASTA, or one sequence a line.
            file: A FASTA, FASTQ or GenBank file in place of the text.
        """
        try:
            records = functions.read_sequences(text, file)
            headers, rows = functions.classify(models, records)
            picture = functions.draw_attribution(models, records)
        except ValueError as error:
            return f"**{error}**", {"headers": ["sequence"], "data": []}, None
        return OK, {"headers": headers, "data": rows}, picture

    text = gr.Textbox(EXAMPLE, label="FASTA or letters", lines=6, elem_id="sequences")
    kinds = [".fa", ".fasta", ".fna", ".fq", ".fastq", ".gb", ".gz"]
    file = gr.File(label="or a file", file_types=kinds, height=130, elem_id="upload")
    button = gr.Button("Classify", variant="primary", elem_id="classify")
    message = gr.Markdown(elem_id="classify-message")
    table = gr.Dataframe(label="Class probabilities", elem_id="classes", interactive=False)
    gr.Markdown("What the class of the first sequence rests on:")
    picture = gr.Plot(show_label=False, elem_id="attribution")
    button.click(classify, [text, file], [message, table, picture], api_name="classify")


def add_masked(models: functions.Models) -> None:
    """The tab with the bases at masked places."""

    def predict_masked_bases(text: str) -> tuple[str, list[list]]:
        """Probabilities of A, C, G and T at every [MASK] of DNA sequences.

        Args:
            text: FASTA, or one sequence a line, with [MASK] in place of some bases.
        """
        try:
            return OK, functions.fill_masks(models, text)
        except ValueError as error:
            return f"**{error}**", []

    headers = ["sequence", "position", "base", "A", "C", "G", "T"]
    text = gr.Textbox(MASKED, label="A sequence with [MASK]", lines=4, elem_id="masked-text")
    button = gr.Button("Predict", variant="primary", elem_id="fill")
    message = gr.Markdown(elem_id="fill-message")
    table = gr.Dataframe(headers=headers, label="Bases", elem_id="bases", interactive=False)
    button.click(predict_masked_bases, [text], [message, table], api_name="predict_masked_bases")


def add_variants(models: functions.Models) -> None:
    """The tab with scores of typed variants."""

    def score_variants(text: str, variants: str) -> tuple[str, list[list]]:
        """Scores of variants of a DNA sequence; a low ratio means an unlikely alternate allele.

        Args:
            text: The reference: FASTA, or one sequence a line.
            variants: One variant a line, such as `12 A>G` or `name:12 A>ACT`.
        """
        try:
            return OK, functions.score_variants(models, text, variants)
        except ValueError as error:
            return f"**{error}**", []

    text = gr.Textbox(EXAMPLE, label="Reference", lines=6, elem_id="reference")
    variants = gr.Textbox("12 T>G", label="Variants", lines=3, elem_id="variants-text")
    button = gr.Button("Score", variant="primary", elem_id="score")
    message = gr.Markdown(elem_id="score-message")
    table = gr.Dataframe(
        headers=functions.VARIANT_COLUMNS, label="Scores", elem_id="scores", interactive=False
    )
    button.click(score_variants, [text, variants], [message, table], api_name="score_variants")


def main() -> None:
    """Serve the page, where `GRADIO_SERVER_NAME` and `GRADIO_SERVER_PORT` say."""
    classifier = os.environ.get("HF_MIXERS_CLASSIFIER")
    masked_lm = os.environ.get("HF_MIXERS_MASKED_LM")
    if not (classifier or masked_lm):
        if not DEFAULT.is_dir():
            raise SystemExit("Set HF_MIXERS_CLASSIFIER or HF_MIXERS_MASKED_LM to a model.")
        masked_lm = str(DEFAULT)
    models = functions.Models(classifier, masked_lm)
    # fonts of the visitor's machine: the page asks no other server for anything
    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["monospace"])
    make_page(models).launch(mcp_server=True, theme=theme, ssr_mode=False, footer_links=[])


if __name__ == "__main__":
    main()
