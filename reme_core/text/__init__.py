"""Texts as values: index terms, token estimates, normal forms, extractive summaries.

Pure functions over strings (and messages) of any language; the only library is snowballstemmer, for English.
"""

from reme_core.text.excerpt import (
    TextMatches,
    cut_middle,
    is_cut_of,
    read_piece,
    search_text,
    without_notices,
)
from reme_core.text.language import (
    Language,
    estimate_tokens,
    is_question,
    main_script,
    prompt_language,
    share_of_script,
    states_wish,
)
from reme_core.text.prompts import (
    Prompt,
    conversation_lines,
    fence,
    json_line,
    load_prompt,
    prompt_time,
    shortened,
    with_media_told,
)
from reme_core.text.segment import (
    TERMS_VERSION,
    normalise_content,
    pack_terms,
    passage_spans,
    query_terms,
    segment_passages,
    terms,
    unpack_terms,
)
from reme_core.text.summary import RankedParts, extractive_summary, rank_parts, split_sentences
from reme_core.text.tool_errors import error_class, looks_like_error

__all__ = [
    "TERMS_VERSION",
    "Language",
    "Prompt",
    "RankedParts",
    "TextMatches",
    "conversation_lines",
    "cut_middle",
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
