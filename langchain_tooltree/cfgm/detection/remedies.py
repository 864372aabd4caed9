"""Remedies: whether an agent can do something about a failure, by the words that tell of it. Pure."""

import re

READ = 2_000
"""Characters of an observation that are read."""

_UP_TO_THE_AGENT = re.compile(
    r"\b(?:log|sign)(?:ged)?[- ]?(?:in|on)\b(?! (?:failed|attempt|credentials))|not (?:yet )?authenticated\b|"
    r"authenticate first|access token|session (?:has )?expired",
    re.IGNORECASE,
)
_CREDENTIALS = (
    (
        r"\b(?:invalid|incorrect|wrong|bad|missing|expired|revoked|no|unknown) (?:api[ _-]?key|credentials?|password|"
        r"passphrase|auth(?:entication|orization)?[ _-]token|client[ _-]secret|license)\b"
    ),
    (
        r"\b(?:api[ _-]?key|credentials?|password|license)\b[^.\n]{0,40}\b(?:invalid|incorrect|wrong|missing|expired|"
        r"revoked|not valid|required|rejected|disabled|not (?:set|provided|found|configured))\b"
    ),
    r"\bauthentication (?:failed|failure|error|is required|required)",
    r"\b(?:AuthenticationError|PermissionDeniedError)\b",
    r"\b40[13]\b[^\w\n]{0,3}\s*(?:unauthori[sz]ed|forbidden|client error)",
    r"^\W*(?:unauthori[sz]ed|forbidden)\b",
    r"\bpermission denied \(publickey",
    r"\b(?:account|user)\b[^.\n]{0,20}\b(?:suspended|deactivated|banned|disabled)\b",
)
_QUOTAS = (
    (
        r"\b(?:quota|insufficient_quota|(?:usage|credit|monthly|daily|request) limit|rate[ _-]?limit(?:s|ed|ing)?|"
        r"RateLimitError|too many requests|resource[ _]exhausted)\b"
    ),
    r"\bthrottl\w+",
    r"\bcall limit (?:exceeded|reached)",
)
_PAYMENTS = (
    r"\bpayment (?:required|declined|failed|was declined|method (?:was )?declined)",
    r"\bcard (?:was |has been )?(?:declined|expired)",
    r"\bbilling\b",
    r"\bcredits?(?: balance)?\b[^.\n]{0,30}\b(?:too low|exhausted|insufficient|expired)\b|\binsufficient credits?\b",
    r"\bsubscription\b[^.\n]{0,30}\b(?:required|expired|inactive|ended|cancell?ed)\b",
)
_SERVICES = (
    r"\bstatus(?:[ _]?code)?\W{0,5}(?:401|402|403|429|502|503|504|529)\b",
    r"\b(?:http|code|error)\b\W{0,5}(?:401|402|403|429|502|503|504|529)\b",
    r"\bservice\b[^.\n]{0,30}\b(?:unavailable|down|offline|out of service)\b",
    (
        r"\b(?:server|host|site|system|api|backend|database)\b[^.\n]{0,20}\b(?:is|are|was) (?:currently |temporarily )?"
        r"(?:down|offline|unavailable|overloaded|unreachable|under maintenance)\b"
    ),
    r"\b(?:temporarily unavailable|bad gateway|gateway time-?out|overloaded(?:_error)?|(?:under|for) maintenance)\b",
    r"\bconnection (?:was )?(?:refused|reset|timed out|timeout|aborted)",
    r"\bConnect(?:ion)?(?:Error|Timeout)\b|\bECONN(?:REFUSED|RESET)",
    r"\b(?:name or service not known|could not resolve host|no space left on device)",
    r"\b(?:network|host) is (?:unreachable|down)",
)
_OUT_OF_REACH = re.compile("|".join((*_CREDENTIALS, *_QUOTAS, *_PAYMENTS, *_SERVICES)), re.IGNORECASE)


def is_recoverable(text: str) -> bool:
    """Whether an agent can do something about a failure.

    Args:
        text: What the failed call brought back.

    Returns:
        `False` where it tells of wrong credentials, a spent quota, a payment or a service that is down or limits its
        rate: the same would happen to any other call. A call for logging in is up to the agent.
    """
    words = text[:READ]
    return _OUT_OF_REACH.search(words) is None or _UP_TO_THE_AGENT.search(words) is not None
