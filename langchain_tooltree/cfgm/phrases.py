"""Phrases: the general language of failure, of no environment in particular. Pure.

Parsers, games, shells, databases, web services, robots and laboratories have little in common but this: they name an
error, they speak of what cannot be done, they negate what the action needs, or they ask what was meant.
"""

from langchain_tooltree.cfgm.observed import SHORT
from langchain_tooltree.cfgm.phrase import Phrase

__all__ = ["DEFAULT_PHRASES", "Phrase"]

_CANNOT = (
    r"(?:can't|cannot|can not|could(?:n't| not)|(?:is|are|am|was|were|be|been)(?:n't| not) able to|unable to|"
    r"not able to|"
    r"(?:is|are|was|were) incapable of)"
)
_HEM = (
    r"(?:(?:but|and|then|however|no|hey|well|oh|hmm+|here|there|currently|right now|as|because|since|"
    r"action failed|failed)[,:\s]+)*"
)
_THING = (
    r"(?:action|command|input|request|query|move|operation|call|tool|function|method|verb|noun|word|"
    r"instruction|option|argument|parameter|syntax|"
    r"expression|statement|value|format|type|key|field|column|table|id|identifier|name|direction|destination|"
    r"target|object|item|location|room|place|"
    r"device|entity|service|host|user|username|account|password|token|file|path|url|endpoint|module|package|"
    r"block|recipe|product|city|currency|unit|"
    r"symbol|state|order|number|date|time|index|resource|attribute|property|flag|task|step|element|selector|"
    r"page|topic|choice|entry|ingredient|"
    r"ingredients|material|materials|dependency|operand|quote|bracket|semicolon|error|exception|character|"
    r"indent|eof|end|keyword|response|spell|"
    r"subcommand|class|label|recipient|symbol|event|calendar|sheet|cell|contact|folder|directory|database|"
    r"schema|record|row|document|ticket|"
    r"permission|permissions|credentials)s?"
)
_EMPTY = (
    r"\bno (?:new|unread|upcoming|recent|pending|other|more|further|results?|match(?:es|ing)|messages?|"
    r"errors?|issues?|problems?|warnings?|events?|"
    r"appointments?|notifications?|vulnerabilities|broken)\b|\b(?<!by )(?:0|zero) (?:\w+ )?(?:errors?|"
    r"failures?|failed|issues)\b|(?:^|[,;(] ?)\d+ (?:passed|failed|rejected|errors?)\b|\bfailed \w+: \d|"
    r"\bany (?:new|unread|upcoming|messages?|emails?|events?|appointments?|notifications?|orders?|meetings?|"
    r"tasks?|bookings?|reservations?|errors?|issues?)\b|"
    r"^(?:you|i)\b[^.]{0,20}\b(?:carrying|holding|wearing) (?:any|no)thing\b(?! to)|"
    r"(?:any|no|some)thing (?:special|unusual|"
    r"interesting|unexpected|of interest|of note|new|out of|suspicious|wrong)|"
    r"^(?:you )?(?:do not|don't) (?:see|notice|hear) any(?: \w+)?\W*$"
)
"""What there is none of is an answer like any other."""


def _start(text: str, confidence: float = 0.9, unless: str = "") -> Phrase:
    return Phrase(f"^(?:{text})", regex=True, place="start", unless=unless, confidence=confidence)


def _last_line(text: str, confidence: float = 0.85) -> Phrase:
    return Phrase(f"^(?:{text})", regex=True, place="last_line", confidence=confidence)


def _begins(text: str, confidence: float = 0.85, unless: str = _EMPTY, longest: int | None = None) -> Phrase:
    return Phrase(
        f"^{_HEM}(?:{text})", regex=True, place="sentence", longest=longest, unless=unless, confidence=confidence
    )


def _says(text: str, confidence: float = 0.8, unless: str = _EMPTY) -> Phrase:
    return Phrase(text, regex=True, place="sentence", longest=SHORT, unless=unless, confidence=confidence)


_EXPLAINED = (
    r"(?:\s*[:!.-](?!\w)|\s*$|\s+(?:\d{3,5}\b|occurred|encountered|while|when|executing|in\s+(?:line|tool)|"
    r"at\s+line|from\b|response))"
)
ERRORS = (
    _start(
        r"[\[(<]?\s*(?:[a-z]+\s+){0,3}?(?:errors?|exception|failure|failed|"
        rf"err)\b[\])>]?(?:\s*[\[(][^\])]{{0,40}}[\])])?{_EXPLAINED}",
        unless=rf"{_EMPTY}|\b(?:errors?|failures?|failed|fails?)\s*[:=]\s*(?:0|none|no)\b|\b(?:fixed|resolved|handling|"
        r"logs?|report|rate|margin|messages?|standard|rounding)\b[^:]*$|::",
    ),
    _start(r"(?-i:(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Fault)\b)\s*(?:[:(\[]|$)"),
    _start(
        r"traceback \(most recent call last\)|(?:uncaught|unhandled) \w+|panic:|fatal:|E: |error\[\w+\]|"
        r"exception in thread|errno \d"
    ),
    _start(
        r"npm (?:err!|error)|make(?:\[\d+\])?: \*\*\*|error from server|! \[\w+|conflict \(|"
        r"automatic merge failed|#(?:ref|name|value|div/0|n/a|null|num)[!?]"
    ),
    _start(
        r"segmentation fault|killed\W*$|aborted\b|core dumped|out of memory|bus error|(?:error|failure) \w+ing\b|"
        r"(?:syntax|parse|type|runtime|value|compile) error\b"
    ),
    _start(
        r"(?:http(?:/[\d.]+)?\s*|(?:response )?status(?: code)?(?: is)?:?\s*|error:?\s*|"
        r"<\w+>\s*)?[45]\d\d\b\s*[:,-]?\s*(?:bad request|unauthori[sz]ed|payment required|"
        r"forbidden|(?:page )?not found|method not allowed|not acceptable|conflict|gone\b|unprocessable|"
        r"too many requests|client error|server error|internal server|"
        r"not implemented|bad gateway|service (?:temporarily )?unavailable|gateway time)"
    ),
    _start(
        r"http(?:/[\d.]+)?\s+(?:error\s+)?[45]\d\d\b|(?:client|server) error '?[45]\d\d|"
        r"(?:response )?status(?: code)?(?: is)?\s*[:=]?\s*[45]\d\d\b"
    ),
    _start(
        r"(?:bad request|unauthori[sz]ed|forbidden|(?:page )?not found|method not allowed|internal server error|"
        r"bad gateway|service (?:temporarily )?unavailable|"
        r"gateway time-?out|too many requests|payment required|unprocessable entity|access denied|"
        r"permission denied)\s*(?:[.:!(-]|$)"
    ),
    Phrase(r"<title>\s*(?:error|[45]\d\d\b|(?:page )?not found|access denied)", regex=True, confidence=0.85),
    _start(
        r"(?-i:[a-z0-9_./+\\-]{1,60}): (?:line \d+: |\d+: |-e \S+ \S+ )?(?:[^\n]{0,160}: )?(?:command not found|"
        r"no such |permission denied|cannot |can't |could not |couldn't |is a directory|"
        r"not a directory|invalid |illegal |unrecogni[sz]ed |unknown |missing |not found|file exists|"
        r"operation not permitted|too many |unbound variable|syntax error|"
        r"ambiguous |device or resource busy|no space left|read-only|directory not empty|bad |event not found|"
        r"option |failed|unable to|connection |(?:fatal )?error\b|fatal\b|"
        r"name or service not known|unterminated |unmatched |unexpected |not in |not a |paths must|must |"
        r"a (?:password|terminal) is required|\(\d+\) )"
    ),
    _start(
        r"\S{1,160}: (?:fatal )?error\b(?: \w*\d+)?:|'?[\w.-]+'? is not recognized as an internal|"
        r"(?:\w+: )?['\"`][\w.-]+['\"`] is not an? [\w ]{0,20}(?:command|subcommand|tool|function|action)"
    ),
    _last_line(r"(?-i:(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b)\s*(?::|$)"),
    _last_line(
        r"(?:[\w./-]{1,60}: )?(?:fatal )?error:\s+(?!0\b|none\b)|(?:[\w./-]+sh: )?(?:line \d+: |"
        r"\d+: )?[\w./-]+: (?:command )?not found$|error: aborting\b"
    ),
    _start(
        r"(?:\(?(?:[\w.]*\.)?\w*error\)?\s*)?near \"[^\"]*\": syntax error|ora-\d{5}|sqlstate|\(?\d{4}, ?['\"]|"
        r"\([\w.]*(?:errors?|exceptions?)\b[\w.]*\)|you have an error in your sql|"
        r"duplicate (?:entry|key)\b|[\w ]{1,30} constraint (?:failed|fails|violat)|[\w\" .']{1,60} (?:too long|"
        r"out of range) for (?:column|field|type)|column [\w\".]+ must appear"
    ),
)
"""Names of errors, as programs write them."""

PARSERS = (
    _begins(
        r"I(?: (?:do|did)(?: not|n't) (?:know|understand|recogni[sz]e|see|have|think|get|follow|quite|speak|"
        rf"believe)\b| {_CANNOT}|(?:'m| am) (?:not sure|unable|not able|not aware|not (?:in|on|at|holding|carrying|"
        r"wearing|near|close)\b|confused|sorry|afraid|stuck)|"
        r" only understood| have no idea| was(?:n't| not| un)\s?able)|(?:i )?beg (?:your )?pardon"
    ),
    _begins(
        r"(?:(?:i'm |i am |we're |we are )?(?:very |so |terribly )?sorry\b(?! for)|oops|whoops|uh[- ]oh|"
        r"unfortunately(?-i:,| [a-z])|pardon\b|nope\b|huh\?)"
    ),
    _begins(
        rf"you(?:'re)?(?: \w+ly)? (?:{_CANNOT}|must\b|need\b(?! not\b)|(?:do|did)(?:n't| not)\b|(?:are|were)(?:n't|"
        r" not)\b|have(?:n't| not)\b|won't\b|will (?:not|have|need)\b|(?:have|had|would have) to\b|"
        r"would(?:n't| not| need)\b|may not\b|lack\b|fail(?:ed)? to\b|seem unable|should(?:n't| not| first)\b|"
        r"bump|hit (?:(?:a|the) (?:\w+ )?wall|your \w+ (?:on|against)) |ought to\b|can only\b|have (?:no|"
        r"insufficient|too)\b|see no\b|"
        r"(?:are |have |is )?(?:carrying |got |holding )?too (?!late for)\w+|are (?:unable|out of|blocked|stuck|"
        r"already|no longer|forbidden)\b|already (?:have|are|own|did|know|\w+ed)\b|try\b.{1,60}\b(?:but|in vain|"
        r"without)\b|not\b(?! only)|used the word)",
        unless=_EMPTY
        + r"|have no (?:\w+ ){0,2}\w+(?: (?:scheduled|today|yet|at the moment|right now|in your \w+(?: \w+)?|"
        r"on \w+))?\W*$|see no(?:thing| one|body)\b|have any \w+\W*$",
    ),
    _begins(r"you'(?:ll (?:need|have)\b|d (?:need|have|better)\b|ve (?:no|not)\b)"),
    _says(
        r"^(?:which|what|who|where|whom|whose)\b.{0,60}\b(?:do|did|would) you (?:mean|want|wish|like)|\b(?:did|"
        r"do) you mean\b|^be more specific|^what\?$|^(?:be )?ambiguous\b|^you must (?:supply|specify)"
    ),
    Phrase(r"^ambiguous\b", regex=True, place="start", confidence=0.9),
    _says(
        r"\bplease (?:specify|provide|supply|enter|try|rephrase|clarify|be more|log ?in|sign ?in|authenticate|"
        r"correct|use (?:a|one|the)\b|fix|retry|ensure|make sure)|\btry again\b|"
        r"^try (?:a different|another|something|one of|'|using)|\bvalid (?:actions|commands|options|choices|"
        r"values) are\b|\baccepted (?:range|values?) (?:is|are)\b"
    ),
)
"""How whoever reads the commands of an agent answers those that make no sense."""

_NEEDED = (
    r"(?:open\b|found\b|available|valid|recogni[sz]ed|understood|supported|allowed|permitted|possible|"
    r"accessible|reachable|visible|defined|installed|known|exist|implemented|authori[sz]ed|authenticated|"
    r"logged|connected|"
    r"present|nearby|near\b|close(?:d)? (?:enough|to|when)|clickable|in (?:your|the|this|range|reach|"
    r"a location|scope|view|stock)|within|inventory|on (?:your|the)|holding|fit\b|work\b|match|respond|accept|"
    r"understand|contain|have (?:a|an|the|enough|"
    r"sufficient|access|permission|that|any|such)\b|support|allow|budge|lead|make sense|enough|moveable|"
    r"movable|edible|openable|closeable|[a-z]+able\b|[a-z]+ible\b|flammable|directory|file\b|number|integer|"
    r"string|command|action|tool\b|verb|"
    r"door|option|match|return|executed|performed|processed|completed|created|loaded|resolved|located|"
    r"retrieved|applied|started|set up|something|anything you|permit|belong|lockable|close to|facing|standing|"
    r"sitting|empty\b|your turn|free\b|a container|seem|appear)"
)
REFUSALS = (
    _start(
        r"(?-i:(?:[a-z]+\.)*(?:[A-Z]\w*)?(?:Invalid|Denied|InUse|NotFound|Unavailable|Exceeded|Fail(?:ed|ure)|Missing|"
        r"Unsupported|Conflict|AlreadyExists|Expired|Timeout|Refused|Violation)(?:[A-Z]\w*)?):\s"
    ),
    _says(
        r"^(?:that|this|these|those|they|it)\b[^.,;:]{0,40}(?: not|n't)\b(?! (?:bad|yet raining))|"
        r"\b(?:doesn't|does not|won't)\b (?!have|include|contain|own|need|want|offer|show|cover|like|rain|change|apply|"
        r"matter|expire|charge|cost|mean|use)\w+|"
        r"\bcan only\b|\bmay only\b|\bnothing (?:\w+ ){1,4}to (?!see|show|report|do\b|display)\w+|"
        r"^\w+ (?:what|who|whom|where)\?$|^(?:no way|alas)\b|"
        r"(?:\b(?:is|are)|'s) (?:already |completely |fully |all )?(?:booked|bolted|jammed|uncalibrated|"
        r"in the past|the same|"
        r"taken\W*$)|(?<!battery )(?<!tank )(?<!moon )\b(?:is|are) full\b|"
        r"^no \w+(?: \w+)? (?:left|remaining)\b|\b(?:rejected|refused|denied|declined)\s*[:.]|"
        r"(?<!not )(?<!no )(?<!action )\brequired\W*$|\bunknown\W*$|\bnot in (?:a|the right|an?) (?:\w+ )?state\b|"
        r"\bnot (?:calibrated|online|powered|charged|equipped|configured|initiali[sz]ed|mounted|attached|plugged)\b",
        unless=_EMPTY + r"|(?:is|was|state|status):? unknown|\bstatus:",
        confidence=0.75,
    ),
    _begins(
        rf"failed (?:to|at|because)\b|failure to\b|{_CANNOT}|impossible\b|not possible|can only|refus(?:ed|ing|"
        r"es) to|not (?:allowed|permitted|enough|(?:yet )?implemented|supported|a valid|valid|recogni[sz]ed|"
        r"applicable|close enough)|no longer|it fails",
    ),
    _begins(
        r"(?:invalid|illegal|malformed|unsupported|unrecogni[sz]ed|unauthori[sz]ed|insufficient|incorrect|"
        rf"improper|inaccessible|unexpected)\s+(?:\w+[\s-]){{0,2}}?{_THING}\b|(?:invalid|illegal|malformed|"
        r"unsupported|insufficient)\b(?-i: [a-z]|\s*[:.!(]|$)|"
        r"unreachable\b|requires? (?-i:[a-z])|(?:unknown|missing|wrong|bad|duplicate|forbidden|nonexistent|"
        rf"non-existent|unresolved|undefined|extra|conflicting)\s+(?:or \w+ )?(?:\w+ )?{_THING}\b|(?:no such|"
        r"no known|no valid|no legal|no matching (?!results|flights|records|entries|items)\w+ found)\b|"
        r"missing (?:required|\d)",
        longest=600,
    ),
    _says(
        rf"\b(?:{_CANNOT}|won't (?:\w+ )?(?:work|open|move|budge|fit|go|start|let|be able|turn|help|accept|do)|"
        r"refuse[sd]? (?:to|by)|fail(?:s|ed) to|failed\b(?!\s*[:=]?\s*\d| (?:login|attempt|test)s?\b))",
        unless=_EMPTY
        + r"|(?:\bstatus:|can view|read[- ]only access)|^\W*(?:failed|\d+ failed)\W*$|\bwhere\b.*\bcannot\b|"
        r"\bto attend\b|"
        r"\bas not failed",
    ),
    _begins(
        r"(?:that|this|it|its|what|here|there|those|these)(?:'s| is| are| was|'re)? (?:not|n't|hardly|plainly|"
        r"barely|too|fixed|un)\s?(?:clear|an?\b|the\b|something|anything|possible|allowed|permitted|how|valid|"
        r"one\b|open|available|going to|here|in\b|"
        r"recogni|understood|supported|enough|where|what|any|portable|inedible|\w+ (?:for you|to)\b|place|your)|"
        r"(?:it|that|this|there)s? isn't|(?:it|that|this)'?s? (?:is )?impossible|"
        r"(?:that|this|it) (?:doesn't|does not|won't|will not|isn't|is not|can't|cannot|didn't|did not|wouldn't|"
        r"would not|would be|makes no|seems? to be (?:locked|stuck|closed|a part|part|fixed)|seems? (?:locked|"
        r"stuck|impossible))|"
        r"that (?:would|action|command|move|object|item|verb|direction)\b.*\b(?:not|n't|invalid|impossible|"
        r"already appears)\b|(?:that|this)'s (?:already|stuck)\b",
        unless=r"\bwould be (?:great|fine|nice|all)|\bit is not (?:raining|snowing|dark)",
        longest=SHORT,
    ),
    _says(
        r"\bthere(?:'s| is|'re| are|\s+isn't|\s+aren't|\s+is not|\s+was|\s+were)\s+(?:no (?:such|way|point|reason|"
        r"need|room to|path|route|verb|noun)|(?:not )?enough|insufficient|nothing (?:to (?!see|report|show|do\b)|"
        r"like|by that|suitable|you can|here to)|"
        r"no (?:[\w-]+ ){1,4}?(?:here\b(?!')|in that direction|in front of|nearby|by that name|with that|with the|"
        r"called|named|matching|for that|to (?!show|display|report|the\b))|(?:any|anything) (?:\w+ ){0,4}?(?:here|"
        r"by that name|called|named|to \w+)|"
        r"an? (?:\w+ ){0,2}(?:error|problem|issue) (?:with|in|while|when|on)|already an? )",
        unless=r"\bno (?:one|body) (?:else )?here|" + _EMPTY,
    ),
    _says(
        r"\b(?:is|are|was|were|be|been|does|do|did|has|have|had|seems?|appears?|should|would|could|may)(?: not|"
        r"n't) (?:to be |be |been |being |an? |the |currently |yet |presently |valid |properly |appear to |"
        rf"seem to |have (?:an? |any |the |enough |sufficient |access |permission ))*{_NEEDED}",
        unless=_EMPTY + r"|(?:do|does)(?:n't| not) have any \w+\W*$|\bdetected\b|arrived",
    ),
    _says(
        r"(?:\b|#)not (?:found|recogni[sz]ed|supported|allowed|permitted|possible|authori[sz]ed|implemented|"
        r"understood|reachable|enough|valid\b|a valid|logged in|applicable|accessible|accepted|executable|"
        r"registered|eligible|defined|in scope|an? \w+ (?:command|option))\b|"
        r"\bno longer (?:exists?|available|valid|active)|\b(?:has|have) (?:already )?(?:expired|ended|crashed|"
        r"died|been (?:discontinued|disabled|deactivated|suspended))\b|\bonly (?:the|an?) \w+ (?:can|may)\b|"
        r"\bon cooldown\b|\bnot in (?:the |your |my |this |any )?(?:dictionary|list|inventory|menu|catalog(?:ue)?|"
        r"vocabulary|database|index|room|set)\b|\bnot (?:important|eligible|started|ready|active)\b|\b(?:was|"
        r"were) not \w+(?:ed|en)\b|\bno obvious (?:way|reason|effect)\b|\balready (?:exists?|taken|in use|booked|"
        r"registered|reserved|been used|occupied|connected)|\b(?:is|are|was|were) (?:invalid|unsupported|"
        r"unrecogni[sz]ed|impossible|forbidden|unavailable|inaccessible|undefined|unreachable|"
        r"out of (?:range|reach|bounds|fuel|ammo)|too (?:far|heavy|big|large|small|high|long|short|full|many|few|"
        r"dark|hot|cold|narrow|weak)|blocked|malformed|incorrect|illegal|in the way|read-only|missing|wrong|"
        r"required|occupied|stuck|sold out|"
        r"fixed in place|disabled and|closed and|locked (?:and|by)|over and|full\W*$|offline|blocking|engaged in|"
        r"unreachable|in use|exhausted|not (?:yet )?(?:your|my))\b",
        unless=_EMPTY + r"|required (?:on|upon|at|for delivery)|errors? not found|pets? not|smoking|\bregions?\b",
    ),
    _says(
        r"\b(?:permission|access|request|action|connection|operation|command|payment|transaction|login|"
        r"authentication|authori[sz]ation|query|task|tool|call|execution|attempt|card|move|build|upload|download|"
        r"step|validation|verification|purchase|booking|update|search|interaction|"
        r"crafting|smelting|placement|navigation|grasp|pickup|precondition|installation|motion|"
        r"script)\b[^.!?,;\n]{0,60}?\b(?:denied|refused|rejected|declined|failed|timed out|aborted|reset by|"
        r"forbidden|blocked|unsuccessful|invalid|ignored|interrupted|unauthori[sz]ed|incomplete)\b",
        unless=r"\b(?:0|no|zero) (?:\w+ )?(?:failed|rejected|errors)|\bas (?:failed|rejected)",
    ),
    _begins(
        r"nothing (?:\w+ )?happen(?:s|ed)?\b|no effect\b|nothing to (?!commit|do\b|see|show|report|display|update|"
        r"fetch|push|pull|install|list|print|review|worry|compare)"
    ),
    _says(
        r"\bnothing (?:\w+ )?happens\b|\b(?:ha[sd]|have|having|with|without) (?:no|any) (?:visible )?effect|"
        r"\bto no avail|\b(?:does|did|do) nothing\b|\bin vain\b|\bnothing (?:has )?change[sd]?\b|(?:did|do|"
        r"does)(?:n't| not) (?:do anything|seem to|appear to|help)",
    ),
    _says(
        r"\bmust (?:first |only |not |either )?(?:be|have|contain|match|specify|provide|include|start|end|supply|"
        r"use|take|pass|wait|stand|hold|face|not)\b|['`\"][\w.\[\]-]+['`\"] is (?:a )?required|\b(?:field|"
        r"argument|parameter|property|value|id|input)s?\b.{0,30}\b(?:required|missing)\b|"
        r"\brequired (?:field|argument|parameter|property|positional|keyword|value)|\bexpected\b.{1,80}\b(?:but|"
        r"got|found|received)\b|^expected \w+ (?:for|at|in|before|after)\b|unexpected (?:keyword|token|argument|"
        r"character|error|eof|indent|end)|takes \d+ positional|"
        r"\bout of (?:range|bounds|reach|memory)\b|\btoo (?:many|few|much)\b|\btoo (?:far|dark|heavy|long|narrow|"
        r"weak)\b|\b(?:needs?|has|have) to be\b|\bneeds (?:an?|at least|more)\b|\brequires? (?:an?|at least|you|"
        r"more|that)\b|\bbecause I need\b|\bmissing\W*$|\bdivi(?:sion|ded?) by (?:zero|0)\b|\bnot enough\b|"
        r"\b(?:only )?available:? \d+, (?:requested|needed)|requested \d+\b.*\bavailable \d+",
        unless=_EMPTY + r"|^(?:to|in order to|note|tip|notes)\b",
    ),
    _says(
        r"\bexceed(?:s|ed)\b(?! (?:expectations|all))|\breturned (?:an? )?(?:status |code |error |"
        r"http )*[45]\d\d\b|\b(?:crashed|fizzles|died)\b(?=\W|$)(?<!has died)|exceed(?:s|ed|ing)? (?:the |your |"
        r"its )?(?:max|limit|quota|rate|allowed|capacity|budget|available)|(?:limit|quota|deadline|capacity|"
        r"length|size)\b[\w\s]{0,20}\b(?:exceeded|reached|hit)|rate.?limit|\btimed? ?out\b|\btimeout\b|went wrong|"
        r"\b(?:error|problem|issue|exception) (?:has |have )?(?:occurred|encountered)|"
        r"encountered an? (?:\w+ )?(?:error|problem|issue)|ran into an? (?:error|problem|issue)|(?:caused|threw|"
        r"raised|returned|gave) an? (?:\w+ )?(?:error|exception)|temporarily unavailable|connection (?:refused|"
        r"reset|closed|error)|no (?:path|route|way)\b(?: \w+)?(?: found| to\b| exists| available)|"
        r"\b(?:blocks?|blocking|bars?|barring) (?:the|your) (?:way|path)\b|\bbump(?:s|ed)? (?:into|against)|"
        r"\bblocked by|\bway is blocked|\b(?:session|token|link|code) (?:has |is )?(?:expired|invalid)|"
        r"\boverlaps with\b.*\bnot\b|\bhas no (?:such|installation|attribute|member|method|property|field|column|"
        r"element|option)\b",
    ),
    _begins(
        r"no (?:[\w-]+ ){0,3}(?:was |were |is |are )?(?:named|called|by that name|with (?:that|this|the given|"
        r"the specified|such an?|id|name)\b)|no (?:[\w-]+ ){1,3}(?:here|in that direction|that way)\b|no (?:exit|"
        r"door|path|object|item|command|action|element|tool|user|entity|device|contact|module|file|"
        r"such|default|configuration|key|match|recipe|target)s? (?!results)\w+|no (?!more|"
        r"match)[\w-]+ (?:match(?:es)?|fits?) (?:the|that|this|your)\b|(?:[\w'\"<>() .:/#_-]{1,60} )(?:do|"
        r"does)(?:n't| not) exist|multiple (?:[\w-]+ )?match|violence\b|perhaps that's why",
        unless=r"\bno (?:one|body) (?:is |was )?here|^no (?:item|file|device|user|tool)s? (?:in|are|on|yet|at)\b|"
        + _EMPTY,
        longest=SHORT,
    ),
)
"""How environments say that an action did not work."""

DEFAULT_PHRASES: tuple[Phrase, ...] = (*ERRORS, *PARSERS, *REFUSALS)
"""The general language of failure."""
