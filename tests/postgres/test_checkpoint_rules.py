"""What a checkpointer promises, as its tests on a file say it, with PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reme_langchain import ReMeSaver
from tests.adapters.langchain.saver import test_graphs, test_payloads, test_rules, test_safety
from tests.adapters.langchain.saver.test_rules import call as call  # the fixture

pytestmark = pytest.mark.postgres


class Folder:
    """In place of the folder of a test: each file in it is the database."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __truediv__(self, _: str) -> str:
        return self.url


@pytest.fixture
def saver(shared_url: str) -> Iterator[ReMeSaver]:
    with ReMeSaver.from_conn_string(shared_url) as opened:
        yield opened


@pytest.fixture
def tmp_path(shared_url: str) -> Folder:
    return Folder(shared_url)


# They look into the file itself, or at its bytes.
ABOUT_FILES = {
    "test_a_list_of_one_thread_does_not_go_through_the_others",
    "test_a_value_changed_after_the_call_is_kept_as_it_was",
    "test_a_memory_handed_in_stays_open_and_shares_its_file",
    "test_the_agent_server_hook_reads_its_path_when_it_is_entered",
    "test_a_long_conversation_grows_by_what_is_new",
    "test_encrypted_messages_are_kept_once_and_no_text_lies_open",
    "test_digests_of_equal_messages_differ_between_files_and_threads",
    "test_what_another_saver_removed_is_written_again",
    "test_the_lists_remembered_of_many_threads_are_bounded",
    "test_tables_of_a_newer_release_are_refused",
    "test_what_waits_for_the_sink_goes_with_its_thread",
    "test_a_history_of_nobody_is_refused_at_construction",
    "test_a_memory_as_history_has_what_a_checkpoint_brought_when_it_is_kept",
    "test_an_image_in_two_threads_and_twenty_checkpoints_of_a_user_takes_its_own_size",
    "test_bytes_go_with_the_user_and_are_counted",
    "test_nothing_is_taken_out_of_what_is_encrypted",
    "test_bytes_that_are_missing_are_told",
    "test_bytes_that_are_others_than_were_kept_are_told",
    "test_a_row_that_was_changed_by_hand_is_told_and_can_be_deleted",
    "test_threads_with_images_are_imported_from_a_saver",
    # They have no store.
    "test_what_is_taken_out_comes_back_byte_by_byte",
    "test_what_is_no_long_base64_stays_where_it_is",
    "test_base64_with_any_end_comes_back_as_it_was",
}

for module in (test_rules, test_graphs, test_safety, test_payloads):
    globals().update(
        {name: test for name, test in vars(module).items() if name.startswith("test_") and name not in ABOUT_FILES}
    )
