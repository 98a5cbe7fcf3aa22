"""Texts as values: index terms, token estimates, normal forms, extractive summaries.

Pure functions over strings (and messages) of any language; the only library is snowballstemmer, for English.
"""

from reme_core.text.excerpt import TextMatches as TextMatches
from reme_core.text.excerpt import cut_middle as cut_middle
from reme_core.text.excerpt import is_cut_of as is_cut_of
from reme_core.text.excerpt import is_shorter_cut as is_shorter_cut
from reme_core.text.excerpt import read_piece as read_piece
from reme_core.text.excerpt import search_text as search_text
from reme_core.text.excerpt import without_notices as without_notices
from reme_core.text.language import Language as Language
from reme_core.text.language import estimate_tokens as estimate_tokens
from reme_core.text.language import main_script as main_script
from reme_core.text.language import prompt_language as prompt_language
from reme_core.text.language import share_of_script as share_of_script
from reme_core.text.prompts import Prompt as Prompt
from reme_core.text.prompts import conversation_lines as conversation_lines
from reme_core.text.prompts import fence as fence
from reme_core.text.prompts import json_line as json_line
from reme_core.text.prompts import load_prompt as load_prompt
from reme_core.text.prompts import prompt_time as prompt_time
from reme_core.text.prompts import shortened as shortened
from reme_core.text.prompts import with_broken_media_told as with_broken_media_told
from reme_core.text.prompts import with_media_told as with_media_told
from reme_core.text.segment import TERMS_VERSION as TERMS_VERSION
from reme_core.text.segment import normalise_content as normalise_content
from reme_core.text.segment import pack_terms as pack_terms
from reme_core.text.segment import passage_spans as passage_spans
from reme_core.text.segment import query_terms as query_terms
from reme_core.text.segment import segment_passages as segment_passages
from reme_core.text.segment import terms as terms
from reme_core.text.segment import unpack_terms as unpack_terms
from reme_core.text.summary import RankedParts as RankedParts
from reme_core.text.summary import extractive_summary as extractive_summary
from reme_core.text.summary import is_question as is_question
from reme_core.text.summary import rank_parts as rank_parts
from reme_core.text.summary import split_sentences as split_sentences
from reme_core.text.summary import states_wish as states_wish
from reme_core.text.tool_errors import error_class as error_class
from reme_core.text.tool_errors import looks_like_error as looks_like_error
