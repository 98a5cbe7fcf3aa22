import os
import subprocess
import sys
from pathlib import Path

import pytest

from reme_core.jobs.retry_policy import holder, is_gone

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see other processes")

CHILD = """
from reme_core.jobs.retry_policy import holder
with holder() as name:
    print(name, flush=True)
    input()
"""


def start_child() -> tuple[subprocess.Popen[str], str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


def ended() -> str:
    with holder() as name:
        return name


def test_two_holders_of_one_process_have_two_names():
    with holder() as first, holder() as second:
        assert first != second
        assert not is_gone(first)
        assert not is_gone(second)


def test_a_holder_of_this_process_is_gone_when_its_context_has_ended():
    assert is_gone(ended())


def test_a_killed_process_is_gone_before_and_after_its_parent_has_noticed():
    child, owner = start_child()
    assert not is_gone(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended and is still a zombie
    assert is_gone(owner)
    child.communicate()
    assert is_gone(owner)


def test_a_process_number_that_was_given_out_again_is_another_process():
    machine, space, process, started, token = ended().split("|")
    assert is_gone("|".join((machine, space, process, str(int(started) - 1), token)))


@pytest.mark.parametrize(
    "owner",
    ["", "somebody", "a|b|c|d|e", "||||", "elsewhere|boot:pid|1|1|x"],
)
def test_what_cannot_be_seen_from_here_may_still_live(owner):
    assert not is_gone(owner)


def test_the_name_of_a_process_in_another_container_is_left_to_its_time():
    machine, _, _, started, token = ended().split("|")
    assert not is_gone("|".join((machine, "other-boot:pid:[1]", "999999", started, token)))
