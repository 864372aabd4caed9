"""Program phrases: how programs name an error, at the beginning or in the last line of what they print. Pure."""

from langchain_tooltree.cfgm.detection.phrase import Phrase

_NONE = (
    r"\b(?:errors?|failures?|failed|fails?)\s*[:=]\s*(?:0\b|none\b|no\W*$)|\b(?:0|no|zero) (?:\w+ )?(?:errors?|"
    r"failures?|failed)|\b(?:fixed|resolved|handling|logs?|report|rates?|margin|messages?|budget|standard|"
    r"rounding)\b[^:]*$|::"
)
"""Errors that there are none of, and things that have the word in their name."""

_COMPLAINT = (
    r"command not found|no such |permission denied|can(?:not|'t) |could(?: not|n't) |(?:is|not) a |invalid |illegal |"
    r"unrecogni[sz]ed |unknown |missing |not (?:found|in) |file exists|operation not permitted|too many |unbound |"
    r"syntax error|ambiguous |device or resource busy|no space left|read-only|directory not empty|bad |"
    r"event not found|option |failed|unable to|connect(?:ion)? |(?:fatal )?error\b|fatal\b|name or service|"
    r"unterminated |unmatched |unexpected |paths must|must |a (?:password|terminal) is required|\(\d+\) "
)
_HTTP = (
    r"bad request|unauthori[sz]ed|payment required|forbidden|(?:page )?not found|method not allowed|not acceptable|"
    r"unprocessable(?: entity)?|too many requests|internal server error|bad gateway|"
    r"service (?:temporarily )?unavailable|gateway time-?out"
)
_STATUS = r"(?:http(?:/[\d.]+)?\s*|(?:response )?status(?: code)?(?: is)?\s*[:=]?\s*|error:?\s*|<\w+>\s*)"


def _start(text: str, unless: str = "") -> Phrase:
    return Phrase(f"^(?:{text})", regex=True, place="start", unless=unless)


def _last_line(text: str) -> Phrase:
    return Phrase(f"^(?:{text})", regex=True, place="last_line", confidence=0.85)


ERRORS = (
    # "Error: ...", "Tool execution failed - ...", "[ERROR] ...", "error while loading"
    _start(
        r"[\[(<]?\s*(?:[a-z]+\s+){0,3}?(?:errors?|exception|failure|failed|"
        r"err)\b[\])>]?(?:\s*[\[(][^\])]{0,40}[\])])?(?:\s*[:!.-](?!\w)|\s*$|\s+(?:-?\d{3,5}\b|occurred|encountered|"
        r"while|when|executing|in\s+(?:line|tool)|at\s+line|from\b|response|\w+ing\b))",
        unless=_NONE,
    ),
    _start(r"(?:syntax|parse|type|runtime|value|compile|validation) error\b|error\[\w+\]|errno \d|E: "),
    # KeyError: ..., botocore.exceptions.ClientError(...), UserNotFound: ...
    _start(r"(?-i:(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Fault)\b)\s*(?:[:(\[]|$)"),
    _start(
        r"(?-i:(?:[a-z]+\.)*(?:[A-Z]\w*)?(?:Invalid|Denied|InUse|NotFound|Unavailable|Exceeded|Fail(?:ed|ure)|"
        r"Missing|Unsupported|Conflict|AlreadyExists|Expired|Timeout|Refused|Violation)(?:[A-Z]\w*)?):\s"
    ),
    _last_line(r"(?-i:(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b)\s*(?::|$)"),
    # a lone code: not_in_channel, ERR_TIMED_OUT, ImageNotFound
    _start(
        r"(?:[\w.]+::)?(?-i:(?=[a-z_]+$|[A-Z_]+\b)(?:\w+_)?(?:not_\w+|no_\w+|NOT_\w+|NO_\w+|ERR_\w+|(?:invalid|"
        r"missing|unknown|duplicate|expired|already|cant|failed|INVALID|MISSING|UNKNOWN|FAILED)_\w+|\w+_(?:error|"
        r"denied|failed|exceeded|limited|invalid|missing|expired|ERROR|DENIED|FAILED|EXCEEDED)))\b(?:\W|$)"
    ),
    _start(r"[\w.]*\s*err_[\w]+|(?-i:E(?:NOENT|ACCES|EXIST|PERM|ISDIR|NOTDIR|INVAL|BUSY|CONN\w+|TIMEDOUT)\b)"),
    # what shells, interpreters and build tools print
    _start(r"traceback \(most recent call last\)|(?:uncaught|unhandled) \w+|panic:|fatal:|exception in thread"),
    _start(r"npm (?:err!|error)|make(?:\[\d+\])?: \*\*\*|error from server|! \[\w+|(?:merge )?conflict (?:in |\()"),
    _start(
        r"segmentation fault|killed\W*$|aborted\b|core dumped|out of memory|bus error|#(?:ref|name|value|div/0|n/a|"
        r"null|num)[!?]"
    ),
    _start(rf"(?-i:[a-z0-9_./+\\-]{{1,60}}): (?:line \d+: |\d+: |-e \S+ \S+ )?(?:[^\n]{{0,160}}: )?(?:{_COMPLAINT})"),
    _start(
        r"\S{1,160}: (?:fatal )?error\b(?: \w*\d+)?:|'?[\w.-]+'? is not recognized as an internal|"
        r"(?:\w+: )?['\"`][\w.-]+['\"`] is not an? [\w ]{0,20}(?:command|subcommand|tool|function|action)"
    ),
    _last_line(
        r"(?:[\w./-]{1,60}: )?(?:fatal )?error:\s+(?!0\b|none\b)|(?:[\w./-]+sh: )?(?:line \d+: |"
        r"\d+: )?[\w./-]+: (?:command )?not found$|error: aborting\b"
    ),
    _start(r"usage: \S"),
    # web services and browsers
    _start(
        rf"{_STATUS}?[45]\d\d\b\s*[:,-]?\s*(?:{_HTTP}|conflict|gone\b|client error|server error|not implemented)|"
        rf"{_STATUS}[45]\d\d\b(?! (?:lines|words|items|rows))|http error [45]\d\d|(?:client|server) error '?[45]\d\d"
    ),
    _start(rf"(?:{_HTTP}|access denied|permission denied)\s*(?:[.:!(-]|$)"),
    Phrase(r"<title>\s*(?:error|[45]\d\d\b|(?:page )?not found|access denied)", regex=True, confidence=0.85),
    # databases
    _start(
        r"(?:\(?(?:[\w.]*\.)?\w*error\)?\s*)?near \"[^\"]*\": syntax error|ora-\d{5}|sqlstate|\(?\d{4}, ?['\"]|"
        r"\([\w.]*(?:errors?|exceptions?)\b[\w.]*\)|you have an error in your sql|duplicate (?:entry|key)\b|"
        r"[\w ]{1,30} constraint (?:failed|fails|violat)|[\w\" .']{1,60} (?:too long|out of range) for (?:column|"
        r"field|type)|column [\w\".]+ must appear"
    ),
)
"""Errors by their names, and the ways in which shells, services and databases report them."""
