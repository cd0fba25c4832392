"""The kinds of JSON document: one table of what reads, shows and saves each."""

from collections.abc import Mapping
from typing import Any

from ..attribute.methods import Measure, measure_of
from ..errors import InputError
from .declaration import Document, Kind

__all__ = [
    "ABLATION_SCHEMA",
    "ALIGNMENT_SCHEMA",
    "ANSWERS_SCHEMA",
    "COMPARED_PARTS_SCHEMA",
    "COMPARISON_SCHEMA",
    "CONTINUATION_SCHEMA",
    "DIFFERENCE_SCHEMA",
    "KINDS",
    "NEURONS_SCHEMA",
    "PARTS_SCHEMA",
    "PREDICTION_SCHEMA",
    "SCHEMA",
    "SUPPORT_SCHEMA",
    "SURVEY_SCHEMA",
    "TRANSLATION_SCHEMA",
    "Document",
    "Kind",
    "is_comparison",
    "is_continuation",
    "is_translation",
    "kind_of",
    "read_measure",
]

SCHEMA = "whyword.explanation/1"
CONTINUATION_SCHEMA = "whyword.continuation/1"
COMPARISON_SCHEMA = "whyword.comparison/1"
COMPARED_PARTS_SCHEMA = "whyword.compared-parts/1"
PARTS_SCHEMA = "whyword.parts/1"
PREDICTION_SCHEMA = "whyword.prediction/1"
SUPPORT_SCHEMA = "whyword.support/1"
DIFFERENCE_SCHEMA = "whyword.difference/1"
NEURONS_SCHEMA = "whyword.neurons/1"
SURVEY_SCHEMA = "whyword.survey/1"
ANSWERS_SCHEMA = "whyword.answers/1"
ABLATION_SCHEMA = "whyword.ablation/1"
TRANSLATION_SCHEMA = "whyword.translation/1"
ALIGNMENT_SCHEMA = "whyword.alignment/1"

_JSON = {".json": "view.saving:render_json"}
_HTML = {".html": "view.html:render_html"}
_UNITS = {**_JSON, **_HTML, ".csv": "view.unit_tables:render_unit_csv"}
_SCORES = {
    **_JSON,
    **_HTML,
    ".tex": "view.latex:render_latex",
    **dict.fromkeys((".png", ".svg"), "view.plots:render_plot"),
    ".csv": "view.data_frames:render_csv",
}
"""What shows scores of tokens."""


def _draw(home: str, plot: str, csv: str, latex: str) -> dict[str, str]:
    """Name what renders a kind in every format, all of it in one module."""
    pictures = dict.fromkeys((".png", ".svg"), f"{home}:{plot}")
    return {**_JSON, **_HTML, ".tex": f"{home}:{latex}", **pictures, ".csv": f"{home}:{csv}"}


_SCORES_FRAME = "view.data_frames:make_frame"
_WIDE_FRAME = "view.data_frames:make_wide_frame"
_HEADS = {"head": dict.fromkeys((".png", ".svg"), "view.unit_plots:render_heads")}
_FLOW = {
    "depth": {
        ".tex": "view.latex:render_depth_latex",
        **dict.fromkeys((".png", ".svg"), "view.plots:render_depth_plot"),
        ".csv": "view.route_list:render_depth_csv",
    },
    "routes": {
        ".tex": "view.route_picture:render_route_latex",
        **dict.fromkeys((".png", ".svg"), "view.route_picture:render_route_plot"),
        ".csv": "view.route_list:render_route_csv",
    },
}

KINDS: tuple[Kind, ...] = (
    Kind(
        name="explanation",
        schema=SCHEMA,
        result="results.explanation:Explanation",
        declared="results.explanation:ExplanationDocument",
        terminal="view.terminal:print_document",
        formats=_SCORES,
        views={**_HEADS, **_FLOW},
        by="word",
        frame=_SCORES_FRAME,
        wide_frame=_WIDE_FRAME,
        wording="view.sentences:describe_explanation",
    ),
    Kind(
        name="continuation",
        schema=CONTINUATION_SCHEMA,
        result="results.continuation:Continuation",
        declared="results.continuation:ContinuationDocument",
        terminal="view.terminal:print_document",
        formats=_SCORES,
        by="block",
        frame=_SCORES_FRAME,
        wide_frame=_WIDE_FRAME,
        wording="view.sentences:describe_continuation",
    ),
    Kind(
        name="comparison",
        schema=COMPARISON_SCHEMA,
        result="results.comparison:Comparison",
        declared="results.comparison:ComparisonDocument",
        terminal="view.terminal:print_document",
        formats=_SCORES,
        views=_HEADS,
        by="token",
        frame=_SCORES_FRAME,
        wide_frame=_WIDE_FRAME,
        wording="view.sentences:describe_comparison",
    ),
    Kind(
        name="translation",
        schema=TRANSLATION_SCHEMA,
        result="results.translation:Translation",
        declared="results.translation:TranslationDocument",
        terminal="view.terminal:print_document",
        formats=_SCORES,
        by="word",
        frame=_SCORES_FRAME,
        wide_frame=_WIDE_FRAME,
        wording="view.sentences:describe_translation",
    ),
    Kind(
        name="alignment",
        schema=ALIGNMENT_SCHEMA,
        result="alignment.alignment:Alignment",
        declared="alignment.alignment:AlignmentDocument",
        terminal="view.alignment_grid:print_alignment",
        formats={
            **_JSON,
            **_HTML,
            **dict.fromkeys((".png", ".svg"), "view.alignment_plots:plot_alignment"),
            ".csv": "view.alignment_grid:render_alignment_csv",
            ".talp": "view.alignment_grid:render_talp",
            ".pharaoh": "view.alignment_grid:render_pharaoh",
        },
        frame="view.alignment_grid:make_alignment_frame",
        wording="view.sentences:describe_alignment",
    ),
    Kind(
        name="parts",
        schema=PARTS_SCHEMA,
        result="results.prompt_parts:PromptParts",
        declared="results.prompt_parts:PromptParts",
        terminal="view.part_bars:print_parts",
        formats=_draw("view.part_bars", "plot_parts", "render_parts_csv", "render_parts_latex"),
        frame="view.part_bars:make_parts_frame",
        wording="view.part_bars:describe_parts",
    ),
    Kind(
        name="compared parts",
        schema=COMPARED_PARTS_SCHEMA,
        result="results.part_comparison:PartComparison",
        declared="results.part_comparison:PartComparison",
        terminal="view.compared_parts_table:print_compared_parts",
        formats={
            **_JSON,
            **_HTML,
            ".tex": "view.compared_parts_table:render_compared_parts_latex",
            **dict.fromkeys((".png", ".svg"), "view.compared_parts_table:plot_compared_parts"),
            ".csv": "view.compared_parts_table:render_compared_parts_csv",
        },
        frame="view.compared_parts_table:make_compared_parts_frame",
        wording="view.compared_parts_table:describe_compared_parts",
    ),
    Kind(
        name="support",
        schema=SUPPORT_SCHEMA,
        result="results.answer_support:AnswerSupport",
        declared="results.answer_support:AnswerSupport",
        terminal="view.support_table:print_support",
        formats={
            **_JSON,
            **_HTML,
            ".tex": "view.support_picture:render_support_latex",
            **dict.fromkeys((".png", ".svg"), "view.support_picture:plot_support"),
            ".csv": "view.support_table:render_support_csv",
        },
        frame="view.support_table:make_support_frame",
        wording="view.support_table:describe_support",
    ),
    Kind(
        name="difference",
        schema=DIFFERENCE_SCHEMA,
        result="results.two_explanations:Difference",
        declared="results.two_explanations:Difference",
        terminal="view.difference_table:print_difference",
        formats=_draw(
            "view.difference_table", "plot_difference", "render_difference_csv", "render_difference_latex"
        ),
        frame="view.difference_table:make_difference_frame",
        wording="view.difference_table:describe_difference",
    ),
    Kind(
        name="prediction",
        schema=PREDICTION_SCHEMA,
        result="results.prediction:Prediction",
        declared="results.prediction:Prediction",
        terminal="view.prediction_table:print_prediction",
        formats={**_JSON, ".csv": "view.prediction_table:render_prediction_csv"},
        frame="view.prediction_table:make_prediction_frame",
    ),
    Kind(
        name="neurons",
        schema=NEURONS_SCHEMA,
        result="inside.neurons:Neurons",
        declared="inside.neuron_records:NeuronsDocument",
        terminal="view.unit_tables:print_neurons",
        formats={**_UNITS, **dict.fromkeys((".png", ".svg"), "view.unit_plots:render_neurons")},
        by="neuron",
        frame="view.unit_tables:make_unit_frame",
        wording="view.sentences:describe_neurons",
    ),
    Kind(
        name="survey",
        schema=SURVEY_SCHEMA,
        result="inside.survey:Survey",
        declared="inside.survey_records:SurveyDocument",
        terminal="view.unit_tables:print_survey",
        formats={**_UNITS, **dict.fromkeys((".png", ".svg"), "view.unit_plots:render_survey")},
        frame="view.unit_tables:make_unit_frame",
        wording="view.sentences:describe_survey",
    ),
    Kind(
        name="top examples",
        schema=ANSWERS_SCHEMA,
        result="inside.top_examples:Answers",
        declared="inside.top_examples:Answers",
        terminal="view.unit_tables:print_answers",
        formats=_JSON,
    ),
    Kind(
        name="ablation",
        schema=ABLATION_SCHEMA,
        result="inside.ablation:Ablation",
        declared="inside.ablation:Ablation",
        terminal="view.unit_tables:print_ablation",
        formats=_JSON,
    ),
)
"""Every kind of document that whyword saves, in the order in which they are described."""


def kind_of(document: Any) -> Kind:
    """Find the kind of a document by its schema."""
    schema = document.get("schema") if isinstance(document, Mapping) else None
    for kind in KINDS:
        if kind.schema == schema:
            return kind
    known = ", ".join(repr(kind.schema) for kind in KINDS)
    raise InputError(f"The document has the schema {schema!r}.", f"This version reads {known}.")


def is_continuation(document: Document) -> bool:
    """Tell the explanation of a continuation from that of one token."""
    return bool(document["schema"] == CONTINUATION_SCHEMA)


def is_comparison(document: Document) -> bool:
    """Tell several methods for one prediction from one."""
    return bool(document["schema"] == COMPARISON_SCHEMA)


def is_translation(document: Document) -> bool:
    """Tell the explanation of a translation from others."""
    return bool(document["schema"] == TRANSLATION_SCHEMA)


def read_measure(document: Document) -> Measure:
    """Read what the scores of an explanation, or of one method of a comparison, are."""
    known = document.get("measure")
    own = measure_of(document["method"])
    return own if known is None else Measure(**{"heuristic": own.heuristic, **known})
