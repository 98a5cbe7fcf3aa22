"""Classes of errors of tool calls, taken from their outputs: calls that failed alike have the same one.

Only the head and the tail of an output are looked at, and JSON up to a bounded length is read, so that the time it
takes hangs neither on the length of an output nor on what it is made of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import JsonValue

MAX_ERROR_CHARS = 100
"""An error's kind is a line that people read in a list."""

UNKNOWN_ERROR = "unknown error"
"""The kind of failures that say nothing."""

# What is read of an output to tell its kind: the head, where texts say it, and the tail, where tracebacks do.
_HEAD, _TAIL = 2000, 2000
# Longer JSON is data with an error in it, if any, and only its head is searched for words.
_MOST_JSON = 1 << 16

_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^(?:[A-Za-z_]\w{0,80}\.){0,12}([A-Za-z_]\w{0,80})(?=:\s|:?$)")
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,12}"
    r"([A-Z]\w{0,80}?(?:Error|Exception|Warning|Timeout|Expired|Interrupt|Exit|Failure|Exceeded|NotFound|Denied))"
    r"(?=\s*(?:[:：(\]]|$))"
)
_OF_HTTP = frozenset({"HTTPError", "HTTPStatusError", "HTTPException", "HttpError", "ClientResponseError", "APIError"})
_STATUS = re.compile(
    r"\b(?:HTTP(?:/[\d.]{1,5})?(?:[ _-]?(?:status|error|code))*|status(?:[ _-]?code)?|(?<!exit )(?<!return )code)"
    r"\W{0,4}([45]\d\d)\b",
    re.I,
)
_ANY_STATUS = re.compile(r"\b([45]\d\d)\b")
_REASON = (
    r"bad request|unauthori[sz]ed|payment required|forbidden|not found|method not allowed|not acceptable"
    r"|request time-?out|conflict|gone|payload too large|unsupported media type|unprocessable (?:entity|content)"
    r"|too many requests|internal server error|not implemented|bad gateway"
    r"|service (?:temporarily )?unavailable|gateway time-?out"
    r"|(?:client|server) error"
)
# Behind the words of an error: a sentence that has them as its subject, or speaks of such pages, is prose.
_NO_PROSE = r"(?!\s+(?:is|was|are|were|means?|meant|has|had|pages?)\b)"
_STATUS_LINE = re.compile(rf"\W{{0,3}}([45]\d\d)\W{{1,3}}(?:{_REASON})\b{_NO_PROSE}", re.I)
_HTTP_LINE = re.compile(
    rf"HTTP/[\d.]{{1,5}} [45]\d\d\b|HTTP(?: error)?:? [45]\d\d(?=\s*(?:$|[:：,.(-])|\s+(?:{_REASON})\b{_NO_PROSE})",
    re.I,
)
# What operating systems and shells say, in the words of POSIX strerror; whom it befell is another each time.
_SYSTEM = re.compile(
    r"(?:^|[:\])>-] ?)(command not found|not found|no such file or directory|permission denied|operation not permitted"
    r"|connection (?:refused|reset by peer|timed out|aborted)|is a directory|not a directory|file exists"
    r"|directory not empty|no space left on device|broken pipe|host unreachable|network is unreachable"
    r"|no route to host|name or service not known|could not resolve host|argument list too long|too many open files"
    r"|cannot allocate memory|read-only file system|device or resource busy|not a git repository)\b" + _NO_PROSE,
    re.I,
)
_SHELL = re.compile(r"\S{0,60}\b(?:sh|bash|zsh|dash): ")
_EXIT = re.compile(
    r"(?:\b(?:exit(?:ed)?|return(?:ed)?|failed|terminated|finished)(?: with| a| non-zero)*[ _-]?(?:exit )?"
    r"(?:code|status)|\bexited with|退出码|返回码)\W{0,3}(-?\d{1,10})\b",
    re.I,
)
_LABEL = re.compile(
    r"[\s\[(*#>❌✗⚠\ufe0f!-]{0,8}(?:"
    r"(?:(?:fatal|internal|unexpected|unknown|tool|call|execution|uncaught)\s{1,3}){0,2}"
    r"(?:error|exception|fatal|failure|failed|uncaught|错误|异常|失败|出错了?|报错|发生错误)"
    r"(?:\](?=\s)|\*{0,2}\s{0,3}(?:[:：]|-(?!\w)))"
    r"|exception in thread (?:\"[^\"\n]{1,80}\"|\S{1,80})(?=\s))\s{0,3}",
    re.I,
)
_QUOTED = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]*”|‘[^’\n]*’|「[^」\n]*」|《[^》\n]*》")
_IDENTIFIER = re.compile(r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-f]{0,32}\d)[0-9a-f]{8,64})\b", re.I)
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,:]\d+)*")
_PATH = re.compile(r"https?://[^\s\"'<>]+|(?:\b[A-Za-z]:)?(?:[\\/][\w.@%+~-]+){2,}[\\/]?")

# What begins an error: a word for it with a colon, which prose about errors hasn't; or a sentence that only those say.
_NOTHING = r"(?!\s*(?:none|null|nil|false|n/a|0|无|没有)\s*(?:$|[,;.，。；)\n]))"
_ORIGIN = (
    r"(?:(?:fatal|internal|unexpected|unknown|tool|api|server|client|system|runtime|execution|validation|syntax|network"
    r"|connection|database|sql|http|io|i/o|os|parse|parser|type|permission|authentication|authorization|request|remote"
    r"|rpc|json|mcp|import|compile|compilation|build|test|call|invocation|command|query|operation)[ _-]){0,2}"
)
_BEGINS = re.compile(
    r"[\s\[(*>❌✗⚠\ufe0f!-]{0,8}(?:"
    rf"{_ORIGIN}(?:error|exception|failure|fatal|failed|uncaught)\]?(?:\*\*)?\s{{0,3}}[:：]{_NOTHING}"
    r"|(?:error|exception|fatal|failure|failed)\](?=\s)"
    r"|error(?: code)?\W{1,3}[45]\d\d\b|error \[?[A-Z]{1,6}\d{1,6}\]?:"
    r"|(?:an? )?(?:error|exception) (?:occurred|happened|was raised|while|when|during|executing|invoking|calling"
    r"|running|reading|writing|opening|fetching|loading|connecting|creating)\b"
    r"|failed to\b|exception in thread\b|curl: \(\d{1,3}\)"
    r"|(?:<tool_use_error>|<error>)"
    r"|(?:npm err!|panic:|segmentation fault|uncaught (?:\w{1,60}error|exception)\b|thread '[^'\n]{0,80}' panicked)"
    r"|(?:发生|出现|系统|运行时?|执行|调用|请求|网络|连接|内部|未知|工具|服务器|参数|语法|读取|写入|操作|致命|严重){0,2}"
    rf"(?:错误|异常|失败|出错|报错|超时)(?:了|信息|代码|原因)?\s{{0,3}}[:：]{_NOTHING}"
    r"|(?:工具|网络|连接|请求|接口|执行|调用|读取|写入|操作|查询|登录|上传|下载|解析|打开|保存){1,2}(?:失败|超时)了?(?=$|[，,。！!\s])"
    r")",
    re.I,
)
# Of a short output only: a page may begin with such a line.
_SHORT = 600
# Refusals stand by themselves, or go on with what was refused.
_REFUSED = (
    r"(?:(?:the|your|this|api|tool|http|secondary|global|daily|monthly)\s+){0,3}(?:"
    r"(?:access|permission|authori[sz]ation)\s+(?:is\s+|was\s+)?denied|unauthori[sz]ed|unauthenticated|forbidden"
    r"|not\s+(?:authori[sz]ed|authenticated|permitted|allowed)"
    r"|(?:authentication|authori[sz]ation|login|validation)\s+(?:failed|required)"
    r"|(?:invalid|bad|malformed|missing(?:\s+required)?|unexpected)\s+(?:(?:tool|function|keyword|input)\s+)?"
    r"(?:arguments?|parameters?|params|inputs?|requests?|json|api\s+key|token|credentials?)"
    r"|unknown\s+(?:tool|function|command|method|argument|parameter)"
    r"|(?:rate\s+|usage\s+|request\s+)?(?:limit|quota)\s+(?:has\s+been\s+|was\s+|is\s+)?(?:exceeded|exhausted)"
    r"|rate\s+limit\s+(?:has\s+been\s+|was\s+|is\s+)?(?:reached|hit)|rate\s+limited"
    r"|too\s+many\s+requests|internal\s+server\s+error|bad\s+gateway|gateway\s+time-?out"
    r"|service\s+(?:temporarily\s+|is\s+)?unavailable)"
    r"(?=\s*(?:$|[:：.,;!。！()\[{'\"`–—-])|\s+(?:for|to|provided|supplied|given|because|due|please)\b)"
)
_SHORT_ERROR = re.compile(
    r"\W{0,8}(?:(?:error|failed|failure|timeout|timed out|错误|失败|超时|异常)[.!。！]?$"
    r"|(?:\w{1,40} ){0,4}(?:timed[ -]out\b|timeout (?:after|while|waiting|exceeded|expired|error)\b"
    r"|timeout: [^\n]{0,80}\b(?:exceeded|expired|elapsed)\b)"
    r"|(?:\w{1,40} ){0,4}(?:failed|error)\b[^\n]{0,40}\b(?:status|code)\W{0,4}[45]\d\d\b"
    rf"|{_REFUSED})",
    re.I,
)
# Answers to questions say this as well.
_NO_ERROR_BY_ITSELF = frozenset(
    {"not found", "is a directory", "not a directory", "file exists", "directory not empty"}
)


def error_class(output: str) -> str:
    """Return the kind of error that the output of a failed call tells of: an exception, an HTTP status, a line.

    Numbers, paths and quoted parts of the line, which differ from call to call, become `#`, `<path>` and `'…'`, so that
    failures of one kind count together. At most `MAX_ERROR_CHARS` characters; `unknown error` where there is no text.
    """
    output = _content_text(output)
    value = _json_object(output)
    if value is not None and (status := _status_of(value)):
        return f"HTTP {status}"
    text = _cut_message(output) if value is None else _message_of(value)
    if not text and value is not None and (code := _exit_code(value)):
        return f"exit code {code}"
    return _kind((text or output).lstrip())[:MAX_ERROR_CHARS].rstrip() or UNKNOWN_ERROR


def looks_like_error(output: str) -> bool:
    """Tell whether an output whose sender did not say so is an error: it begins as one does, or is one as JSON.

    Texts that speak of errors ("No errors found", "Error handling in Python ...") are none. It is told by patterns: an
    error in words of its own is missed.
    """
    output = _content_text(output)
    value = _json_object(output)
    if value is not None:
        return _is_error(value)
    head = output[:_HEAD].lstrip()
    if head.startswith("{"):  # JSON that is too long to be read, or cut off
        return _CUT_ERROR.match(head) is not None
    line = _first_line(head)
    return bool(
        head.startswith(_TRACEBACK)
        or _BEGINS.match(line)
        or _STATUS_LINE.match(line)
        or _HTTP_LINE.match(line)
        or ((named := _EXCEPTION.match(line)) and not named[1].endswith(("Warning", "Exit")))
        or (len(output) <= _SHORT and _short_error(line))
    )


def _short_error(line: str) -> bool:
    system, code = _SYSTEM.search(line), _EXIT.search(line)
    if system and (system[1].lower() not in _NO_ERROR_BY_ITSELF or _SHELL.match(line)):
        return True
    return bool(_SHORT_ERROR.match(line) or (code and int(code[1])))


def _first_line(head: str) -> str:
    return next((line.strip() for line in head.splitlines() if line.strip()), "")


def _kind(text: str) -> str:
    if raised := _raised(text):
        return raised
    head = text[:_HEAD]
    first = _first_line(head)
    said = first[label.end() :] if (label := _LABEL.match(first)) else first
    if named := _EXCEPTION.match(said) or _EXCEPTION.match(first):
        status = _ANY_STATUS.search(first) if named[1] in _OF_HTTP else None
        return f"HTTP {status[1]}" if status else named[1]
    if status := _STATUS.search(first) or _STATUS_LINE.match(said):
        return f"HTTP {status[1]}"
    code = _EXIT.search(first)
    # Behind the code stands what was printed.
    if system := _SYSTEM.search(head.replace("\n", ": ") if code else said):
        return system[1].lower()
    if code and int(code[1]):
        return f"exit code {code[1]}"
    if status := _STATUS.search(head):
        return f"HTTP {status[1]}"
    return _generalised(said or first)


def _raised(text: str) -> str:
    """Return the exception that a Python traceback ends with; of several, the last."""
    tail = text[-_TAIL:]
    if _TRACEBACK not in tail and _TRACEBACK not in text[:_HEAD]:
        return ""
    lines = tail.rpartition(_TRACEBACK)[2].splitlines()[1:]
    names = [named[1] for line in lines if (named := _RAISED.match(line))]
    return names[0] if _TRACEBACK in tail and names else names[-1] if names else ""


def _generalised(line: str) -> str:
    line = _QUOTED.sub("'…'", _PATH.sub("<path>", line))
    return " ".join(_NUMBER.sub("#", _IDENTIFIER.sub("#", line)).split())


# Keys by which tools and protocols say in JSON how a call ended. Sources: Model Context Protocol (isError), GraphQL
# (errors), JSend (status), RFC 9457 (status, title, detail), and what subprocess wrappers return.
_MESSAGE_KEYS = ("message", "error_message", "errorMessage", "detail", "details", "reason", "title", "msg", "stderr")
_EXIT_KEYS = ("exit_code", "exitCode", "returncode", "return_code")
_STATUS_KEYS = ("status", "statusCode", "status_code", "code")
_BESIDE_ERRORS = frozenset({"errors", "data", "extensions", "meta", "jsonapi", *_STATUS_KEYS, *_MESSAGE_KEYS})
_NONE = r"\s*(?:none|null|nil|n/a|no|false|0|ok|success|no errors?|无|没有|无错误|没有错误)?[.!。]?\s*"
_NO_ERROR = re.compile(_NONE, re.I)
_CUT_ERROR = re.compile(
    r"\{\s*\"(?:(?:error|errors|exception)\"\s*:\s*+"
    rf"(?!null|false|true|-?\d|\"{_NONE}\"|\[\s*\]|\{{\s*\}})|is_?error\"\s*:\s*true)",
    re.I,
)
_CUT_MESSAGE = re.compile(r"\"(?:error|message|detail|text|exception)\"\s*:\s*\"((?:[^\"\\]|\\.){1,300})", re.I | re.S)


def _json_object(output: str) -> Mapping[str, JsonValue] | None:
    value = _json(output, "{")
    return value if isinstance(value, dict) else None


def _content_text(output: str) -> str:
    """Return the first text in a list of content blocks, as the Model Context Protocol has it; else the output."""
    blocks = _json(output, "[")
    if not isinstance(blocks, list) or not all(isinstance(block, dict) and "type" in block for block in blocks):
        return output
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block["type"] == "text")
    return next((text for text in texts if isinstance(text, str)), output)


def _json(output: str, begins: str) -> JsonValue:
    if len(output) > _MOST_JSON or not output[:_HEAD].lstrip().startswith(begins):
        return None
    try:
        value: JsonValue = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return value


def _is_error(value: Mapping[str, JsonValue]) -> bool:
    for key in ("isError", "is_error"):
        if isinstance(said := value.get(key), bool):
            return said
    if _says_error(value.get("error")):
        return True
    status = value.get("status")
    if value.get("success") is False or value.get("ok") is False or status in ("error", "fail"):
        return True
    if status in ("failed", "failure") and _BESIDE_ERRORS.issuperset(value):  # of a job that was looked up otherwise
        return True
    if value.get("errors") and value.get("data") is None and _BESIDE_ERRORS.issuperset(value):
        return True
    return bool(_exit_code(value) or (_status_of(value) and _message_of(value)))


def _says_error(error: JsonValue) -> bool:
    """Tell whether what stands under `error` is one: a measure of error, or that there is none, isn't."""
    if isinstance(error, str):
        return not _NO_ERROR.fullmatch(error)
    return bool(error) and not isinstance(error, (bool, int, float))


def _message_of(value: Mapping[str, JsonValue]) -> str:
    """Return what JSON says went wrong; empty where it doesn't."""
    error = value.get("error") or _first(value.get("errors")) or value.get("exception")
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        kind = next((str(error[key]) for key in ("type", "code", "name") if isinstance(error.get(key), str)), "")
        return ": ".join(part for part in (kind, _text_at(error, _MESSAGE_KEYS)) if part)
    content = _first(value.get("content"))
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return str(content["text"])
    return _text_at(value, _MESSAGE_KEYS)


def _cut_message(output: str) -> str:
    """Return what JSON says that is too long to be read, or cut off."""
    head = output[:_HEAD].lstrip()
    said = _CUT_MESSAGE.search(head) if head.startswith("{") else None
    return said[1] if said else ""


def _text_at(value: Mapping[str, JsonValue], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if isinstance(text := value.get(key), str) and text.strip()), "")


def _first(value: JsonValue) -> JsonValue:
    return value[0] if isinstance(value, list) and value else None


def _status_of(value: Mapping[str, JsonValue]) -> int | None:
    error = value.get("error")
    for place in (error, value):
        for key in _STATUS_KEYS:
            status = place.get(key) if isinstance(place, dict) else None
            if type(status) is int and 400 <= status < 600:
                return status
    return None


def _exit_code(value: Mapping[str, JsonValue]) -> int | None:
    codes = (value.get(key) for key in _EXIT_KEYS)
    return next((code for code in codes if type(code) is int and code), None)
