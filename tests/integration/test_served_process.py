"""`reme serve` as a process: it keeps what it acknowledged, ends in order, and outlasts rude callers."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import signal
import socket
import sys
import threading
from pathlib import Path

import httpx2
import pytest

from reme_core import ReMe
from tests.support.forked_program import ForkedProgram, in_interpreter
from tests.support.openai_server import KEY, Completion, Hold, OpenAIServer
from tests.support.served_process import ServedProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def rss_kib(process):
    [line] = [line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with ServedProcess(tmp_path_factory.mktemp("served"), "--max-body", "9") as process:
        yield process


def wait_until_asked(model):
    while not model.held:
        threading.Event().wait(0.01)


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path):
    acknowledged = []
    for round_ in range(2):
        with ServedProcess(tmp_path) as served:
            with contextlib.suppress(httpx2.TransportError):
                for number in range(200):
                    if number == 20 + 7 * round_:
                        killer = threading.Thread(target=served.stop, args=(signal.SIGKILL,))
                        killer.start()
                    text = f"fact {round_}-{number}"
                    answer = served.client.post("/v1/memories", json={"content": text})
                    if answer.status_code == 200:
                        acknowledged.append(answer.json()["memory_id"])
            killer.join()
    assert len(acknowledged) >= 40
    with ReMe.sync(working_dir=tmp_path / ".reme", llm=None, embedding=None) as memory:
        assert memory.check().problems == ()
        for memory_id in acknowledged:
            memory.get_memory(memory_id, user_id="ana")


def test_the_bound_of_a_request_is_that_of_the_command_line(served):
    for size, status in ((8_900_000, 422), (9_500_000, 413)):  # 8.5 MiB, too much without the option, and 9.1
        assert served.client.post("/v1/memories", content=b"x" * size).status_code == status


def test_a_request_sent_again_after_a_kill_gets_the_answer_of_before(tmp_path):
    body, headers = {"messages": [{"role": "user", "content": "hello"}]}, {"Idempotency-Key": "a"}
    with ServedProcess(tmp_path) as served:
        first = served.client.post("/v1/summary", json=body, headers=headers)
        served.stop(signal.SIGKILL)
    with ServedProcess(tmp_path) as served:
        again = served.client.post("/v1/summary", json=body, headers=headers)
        assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")


def test_a_summary_that_runs_when_the_service_is_stopped_is_answered(tmp_path):
    with OpenAIServer() as model:
        hold = Hold(Completion(text='{"facts": []}'))
        model.replies(hold)
        environment = {"REME_LLM_MODEL": "any", "REME_LLM_API_KEY": KEY, "REME_LLM_BASE_URL": model.base_url}
        with ServedProcess(tmp_path, environment=environment, program=in_interpreter) as served:
            answers = []

            def ask():
                body = {"messages": [{"role": "user", "content": "I moved to Lisbon"}]}
                answers.append(served.client.post("/v1/summary", json=body))

            asking = threading.Thread(target=ask)
            asking.start()
            wait_until_asked(model)
            served.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(httpx2.TransportError):  # once it takes no more
                while True:
                    httpx2.get(f"{served.url}/healthz", trust_env=False)
            hold.release()
            asking.join()
            assert served.process.wait(60) == 0
            assert answers[0].status_code == 200
            assert len(answers[0].json()["message_ids"]) == 1


def test_a_second_signal_leaves_at_once_and_the_job_is_done_by_the_next_start(tmp_path):
    with OpenAIServer() as model:
        hold = Hold(Completion(text='{"facts": []}'))
        model.replies(hold)
        environment = {"REME_LLM_MODEL": "any", "REME_LLM_API_KEY": KEY, "REME_LLM_BASE_URL": model.base_url}
        with ServedProcess(tmp_path, environment=environment) as served:
            body = json.dumps({"messages": [{"role": "user", "content": "I moved to Lisbon"}]})
            asking = http.client.HTTPConnection(*served.address)
            asking.request("POST", "/v1/summary", body)
            wait_until_asked(model)
            served.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(httpx2.TransportError):
                while True:
                    httpx2.get(f"{served.url}/healthz", trust_env=False)
            assert served.stop(signal.SIGTERM) == 128 + signal.SIGTERM
            asking.close()
        hold.release()
        model.replies(Completion(text='{"facts": []}'))
        with ServedProcess(tmp_path, environment=environment) as served:
            served.client.post("/v1/jobs/flush")
            assert served.client.get("/v1/jobs").json()["jobs"] == []
            assert served.client.get("/v1/stats").json()["messages"] == 1


def test_bodies_of_a_hundred_megabytes_are_refused_and_memory_stays_bounded(served):
    assert served.client.get("/readyz").status_code == 200
    before = rss_kib(served.process)
    piece = b"x" * (1 << 20)

    def told(headers):
        with contextlib.closing(http.client.HTTPConnection(*served.address, timeout=60)) as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                pieces = (piece for _ in range(100))
                connection.request("POST", "/v1/memories", pieces, headers, encode_chunked=True)
            with contextlib.suppress(ConnectionError, http.client.HTTPException), connection.getresponse() as answer:
                return answer.status
            return None  # it hung up while we still sent

    assert told({"Content-Length": str(100 << 20)}) in {413, None}
    threads = [threading.Thread(target=told, args=({"Transfer-Encoding": "chunked"},)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert served.client.get("/healthz").status_code == 200
    assert rss_kib(served.process) - before < 160 << 10


def test_five_hundred_open_streams_are_served_beside_others(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200 and hard >= 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1200, hard))
    with OpenAIServer() as model, contextlib.ExitStack() as stack:
        environment = {"REME_LLM_MODEL": "any", "REME_LLM_API_KEY": KEY, "REME_LLM_BASE_URL": model.base_url}
        served = stack.enter_context(ServedProcess(tmp_path, environment=environment))
        hold = Hold(Completion(text="hello"))
        model.otherwise = hold
        before = rss_kib(served.process)
        body = json.dumps({"message": "hello"})
        head = (
            f"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        streams = [stack.enter_context(socket.create_connection(served.address, timeout=60)) for _ in range(500)]
        for stream in streams:
            stream.sendall(head.encode())
        for stream in streams:
            assert stream.recv(12) == b"HTTP/1.1 200"
        assert served.client.get("/v1/stats").status_code == 200
        assert rss_kib(served.process) - before < 200 << 10
        hold.release()


def test_headers_that_never_end_are_hung_up_on(served):
    with socket.create_connection(served.address, timeout=60) as rude:
        rude.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * (80 << 10))
        with contextlib.suppress(ConnectionResetError):
            assert b"400" in rude.recv(100)
        assert served.client.get("/healthz").status_code == 200


def test_a_taken_port_is_one_clear_line(served, tmp_path):
    port = served.address[1]
    second = ForkedProgram(["serve", "--user", "ana", "--port", str(port)], tmp_path, {})
    _, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert err.count(b"\n") == 1
    assert f"can't listen on port {port}" in err.decode()


def test_the_log_has_no_texts_and_the_answer_no_server_header(tmp_path):
    with ServedProcess(tmp_path) as served:
        answer = served.client.post("/v1/memories", json={"content": "the secret"})
        assert "server" not in answer.headers
        served.stop()
        assert "POST /v1/memories 200" in served.errors
        assert "secret" not in served.errors
        assert "Traceback" not in served.errors
