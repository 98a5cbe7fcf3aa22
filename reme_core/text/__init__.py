"""Texts as values: index terms, token estimates, normal forms, extractive summaries.

Pure functions over strings (and messages) of any language; the only library is snowballstemmer, for English.
"""

from reme_core.text.conversation import (
    conversation_lines,
    fence,
    json_line,
    prompt_time,
    shortened,
    with_media_told,
)
from reme_core.text.excerpt import (
    TextMatch,
    TextMatches,
    TextPiece,
    cut_middle,
    is_cut_of,
    read_piece,
    search_text,
    without_notices,
)
from reme_core.text.language import Language, prompt_language
from reme_core.text.normalise import normalise_content
from reme_core.text.passages import Passage, cut_passages, passage_spans, segment_passages
from reme_core.text.prompts import Prompt, load_prompt, parse_prompt
from reme_core.text.questions import is_question
from reme_core.text.relevant_parts import RankedParts, rank_parts
from reme_core.text.scripts import count_scripts, main_script, share_of_script
from reme_core.text.segment import TERMS_VERSION, pack_terms, query_terms, terms, unpack_terms
from reme_core.text.summary import extractive_summary, split_sentences
from reme_core.text.tokens import estimate_tokens
from reme_core.text.tool_errors import error_class, looks_like_error
from reme_core.text.wishes import states_wish

__all__ = [
    "TERMS_VERSION",
    "Language",
    "Passage",
    "Prompt",
    "RankedParts",
    "TextMatch",
    "TextMatches",
    "TextPiece",
    "conversation_lines",
    "count_scripts",
    "cut_middle",
    "cut_passages",
    "error_class",
    "estimate_tokens",
    "extractive_summary",
    "fence",
    "is_cut_of",
    "is_question",
    "json_line",
    "load_prompt",
    "looks_like_error",
    "main_script",
    "normalise_content",
    "pack_terms",
    "parse_prompt",
    "passage_spans",
    "prompt_language",
    "prompt_time",
    "query_terms",
    "rank_parts",
    "read_piece",
    "search_text",
    "segment_passages",
    "share_of_script",
    "shortened",
    "split_sentences",
    "states_wish",
    "terms",
    "unpack_terms",
    "with_media_told",
    "without_notices",
]
