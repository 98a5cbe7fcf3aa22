"""Labels of any text, by hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, validate_op_namespace

from reme_langchain import decode_label, encode_label

TEXTS = st.text(
    st.one_of(st.sampled_from("%.*\0aLlanggraph25E"), st.characters(exclude_categories=["Cs"])), max_size=20
)


@pytest.mark.requirement("LG-STORE-16")
@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS)
def test_encoding_is_injective_inverted_by_decoding_and_accepted_by_langgraph(one: str, other: str) -> None:
    label = encode_label(one)
    assert decode_label(label) == one
    assert (label == encode_label(other)) == (one == other)
    validate_op_namespace(GetOp((label,), "k"))
    assert label not in {"langgraph", "*", ""}
