"""Phrases: the general language of failure, of no environment in particular. Pure.

Parsers, games, shells, databases, web services, robots and laboratories have little in common but this: they name an
error, they speak of what cannot be done, they negate what the action needs, or they ask what was meant. Each family
below is one of these ways, made of a few small vocabularies. They are looked for in the sentences of short observations
and in the first sentence of longer ones, so their words may be common: what counts is that hardly anything else is
said.
"""

from langchain_tooltree.cfgm.anomaly.phrases import Phrase, Place

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


__all__ = ["DEFAULT_PHRASES", "Phrase"]

LONGEST = 600
"""Characters of an observation of which a sentence in plain words can be the point."""


def _any(words: str) -> str:
    return f"(?:{'|'.join(word.replace('_', ' ') for word in words.split())})"


_NOT = r"(?: not|n't)"
_BE = "(?:is|are|was|were|be|been|'s|'re|am)"
_CANNOT = rf"(?:can't|cannot|can not|could{_NOT}|unable|not able|incapable)"
_BAD = _any(
    "invalid illegal malformed unsupported insufficient incorrect improper unexpected forbidden prohibited undefined "
    "unauthori[sz]ed unrecogni[sz]ed unspecified inappropriate nonexistent non-existent unresolved mismatch(?:ed|ing)?"
)
_DOUBTFUL = _any("unknown missing wrong bad duplicate ambiguous extra expired conflicting no_such")
_UNABLE = r"(?:un|in|im|ir|non-?)(?!vis|cred|evit|stab|delib|secur|sur)\w{2,}[ai]ble"
"""Unreachable, impassable, inedible, irreversible."""

_STOPPED = _any(
    "denied refused rejected declined aborted forbidden blocked timed_out interrupted unsuccessful disallowed "
    "prohibited prevented obstructed disconnected exhausted"
)
_DEED = _any(
    r"action request access permission connection command payment login query task tool call attempt card build "
    r"upload download step purchase update search script grasp pick\w* \w+(?:ation|ction|ission|ment|ing) it this that"
)
_SO = _any(
    r"open found available valid recogni[sz]ed understood supported allowed permitted possible defined installed "
    r"exist present near(?:by)? close_enough close_to within logged connected authori[sz]ed authenticated holding "
    r"carrying wearing facing standing sitting here enough sufficient inventory free your_turn [a-z]+[ai]ble "
    r"in_(?:your|the|this|that|range|reach|scope|view|stock|a|any) on_(?:your|the) an? the_(?:sort|kind|right|answer|"
    r"time) something anything fit work match respond accept understand contain support allow permit belong lead "
    r"make_sense help budge move like let want appear seem know going_to calibrated online powered charged "
    r"configured initiali[sz]ed mounted attached plugged registered loaded set_up started satisfied met held "
    r"provided specified given have_(?:a|an|the|any|that|enough|such|access|permission|"
    r"sufficient) return ready eligible identical unique enabled of_(?:type|the|"
    r"that) executed performed processed completed created resolved flammable directory empty done active"
)
"""What has to be so for an action to work."""

_EXCESS = _any(
    "far heavy big large small high low long short full many much few dark hot cold narrow wide weak tired exhausted "
    "close old late early tight steep strong thick busy dangerous slippery loose deep wet tall"
)
_LIMIT = _any("limit quota deadline capacity length size maximum minimum")
_STUCK = _any(
    r"stuck jammed wedged budge resists? obstruct\w* impenetrable frozen intercepts? in_(?:the|your|its)_way blocked"
)
_FASTENED = _any("boarded bolted nailed glued screwed fastened fixed rooted welded chained pinned sealed locked")
_OCCUPIED = _any(
    r"double-booked booked\W*$ occupied busy read-only protected archived greyed_out disabled_(?:and|at|"
    r"for) closed(?:,|_and) locked_(?:and|by|behind) over(?:;|,|_and) inside_(?:a|another|other|"
    r"the) in_use in_collision in_the_past the_same\W*$ lost sold_out engaged static immovable taken\W*$ tied stale "
    r"dead gone absent missing offline uncalibrated"
)
_BROKEN = _any("error problem issue exception")

_EMPTY = (
    r"\bno (?:new|unread|upcoming|recent|pending|other|more|further|results?|match(?:es|ing)|messages?|errors?|"
    r"issues?|problems?|warnings?|events?|appointments?|notifications?|vulnerabilities|broken|need|action)\b|"
    r"\b(?<!by )(?:0|zero) (?:\w+ )?(?:errors?|failures?|failed|issues)\b|(?:^|[,;(] ?)\d+ (?:passed|failed|rejected|"
    r"errors?)\b|\bfailed \w+: \d|\bany (?:new|unread|upcoming|messages?|emails?|events?|appointments?|"
    r"notifications?|orders?|meetings?|tasks?|bookings?|reservations?|errors?|issues?)\b|^(?:you|"
    r"i)\b[^.]{0,20}\b(?:carrying|holding|wearing) (?:any|no)thing\b(?! to)|(?:any|no|some)thing (?:special|unusual|"
    r"interesting|unexpected|of interest|of note|new|out of|suspicious|wrong)|^(?:you )?(?:do not|don't) (?:see|"
    r"notice|hear) any(?: \w+)?\W*$|\b(?:state|status):|\bdetected\b|:\s*(?:0|no|none|false|off|ok)\W*$"
)
"""What there is none of is an answer like any other."""


def _says(
    *texts: str, unless: str = "", place: Place = "sentence", confidence: float = 0.8, longest: int | None = LONGEST
) -> Phrase:
    normal = f"{_EMPTY}|{unless}" if unless else _EMPTY
    return Phrase("|".join(texts), regex=True, place=place, longest=longest, unless=normal, confidence=confidence)


REPLIES = (
    # whoever reads the commands speaks of itself
    _says(
        r"^I(?:'m| am| was)?(?: (?:really|still|only))? (?:not (?!only)|confused|sorry|afraid|stuck|have no idea)",
        rf"^I(?: (?:really|still))? (?:(?:do|did){_NOT} (?:know|understand|recogni[sz]e|see|have|think|get|follow|"
        rf"quite|speak|believe)\b|{_CANNOT}|only understood)",
        confidence=0.9,
        longest=None,
    ),
    _says(
        r"^(?:(?:i'm |i am |we're |we are )?(?:very |so )?sorry\b(?! for)|oops|whoops|uh[- ]oh|pardon|"
        r"(?:i )?beg your pardon|nope\b|huh\b|alas\b|never ?mind|no way\b|what\?|eh\?|unfortunately(?-i:,| [a-z]))",
        confidence=0.9,
        longest=None,
    ),
    # it asks back, or wonders
    _says(
        r"^(?:which|what|who|where|whom|whose)\b.{0,60}\b(?:do|did|would) you (?:mean|want|wish|like)|\b(?:did|"
        r"do) you (?:mean|forget)\b",
        r"^(?:be )?more specific\b|^(?:to|with|from|on|in|at)? ?(?:\w+ )?(?:what|who|whom|where)\?$",
        r"^(?:how|why) (?:can|could|do|would|should) (?:i|you|one)\b",
    ),
    # it says what to do instead
    _says(
        r"\bplease (?!wait|note|see|visit|contact|find|allow|review|leave)\w+|\btry again\b|^try (?:an?|another|"
        r"something|one of|'|using|to)\b",
        r"\b(?:choose|pick|select|use|say|specify) (?:another|a different|which|whether|either|one of)\b|"
        r"^type\b.{1,20}\bfor help",
        r"\b(?:valid|allowed|accepted|available|supported|permitted|possible|legal) (?:\w+ )?(?:are|is|"
        r"include)\b(?! \d)",
        r"\b(?:allowed|accepted|permitted) \w+:|^(?:you (?:must|need to|have to) )?\w+ .{1,80} (?:first|"
        r"beforehand)\W*$",
        unless=r"\bif \b|^(?:turn|drive|walk|go|head|breathe|you (?:go|enter|see)) |\bis available\W*$|\bcame\b",
    ),
)
"""How whoever reads the commands of an agent answers those that make no sense, or come too early."""

INABILITY = (
    # as a fact, it is the point only if it comes first
    _says(rf"\b{_CANNOT}\b", place="opening", unless=r"\bcan view\b|\bto attend\b|\bwhere\b.*\bcannot\b|\bwarns?\b"),
    _says(rf"^(?:\w+ ){{0,3}}{_CANNOT}\b", place="opening", longest=None),
    _says(r"^(?:doing|trying|that|this|it|your|the)\b.* would (?!like)\w+", place="opening"),
    _says(rf"\b(?:you|it|he|she|they|that|this|and|but) {_CANNOT} (?!be \w+(?:ed|en)\b)", unless=r"\bif\b|\bwhere\b"),
    _says(
        rf"\b(?:impossible|not possible|refus(?:e|es|ed|ing)\b|failure to|no longer (?!than|needed|necessary|"
        rf"required)|{_BE} no more)",
        r"\bfailed\b(?!\s*[:=]?\s*\d| (?:login|attempt|test|run|payment)s?\b)|\bfails?\b(?= to\b|$|\.)",
        unless=r"\bcan view\b|read[- ]only access|^\W*(?:failed|\d+ failed)\W*$|\bas (?:not )?failed|\bthirsty|"
        r"\bhungry",
    ),
    _says(
        r"\b(?:(?:do|does|did|would)(?: not|n't)|won't|will not)(?: \w+ly)? (?!be\b|have|include|own|need|show|cover|"
        r"rain|snow|change|matter|expire|charge|cost|mean|use|run|feel|see\b|hear\b|look|notice|find any)\w+",
        r"\bmay not (?!be\b|have|rain|apply|need)\w+",
        # what is only so elsewhere is not so here
        r"\b(?:can|may) only\b|\bonly (?:\w+ ){1,3}(?:can|may)\b|^only (?!\d)|\bonly (?:when|if|while|one of|"
        r"supports?|accepts?|works?|valid|supported|available (?:in|for|to|when|on|with)|allowed|implemented)\b|"
        r"\b(?:accepts?|takes?|works?|supports?) (?:only|either)\b",
        unless=r"\bany \w+\W*$",
    ),
    # it comes to nothing
    _says(
        r"\bnothing (?:\w+ )?happen(?:s|ed)?\b|\b(?:no|any) (?:visible |obvious )?effect\b|\bto no avail|\b(?:does|"
        r"did|do) nothing\b",
        r"\bshakes? (?:his|her|its|their) head|\bignores? (?:you|your|the)\b|\bpays? no attention|\b(?:not|n't|"
        r"wait)\b.* (?:until|unless)\b|\bunless you\b",
        r"\bin vain\b|\bnothing (?:has |was |is )?(?:change[sd]?|done|\w+ed)\b(?! to)|^(?:you )?give up\b",
    ),
)
"""What cannot be done, or has come to nothing."""

NEGATIONS = (
    # the agent is not, or has not
    _says(
        rf"^(?:\w+, |but |and |well )?you(?:'re)?(?: \w+ly)? (?:(?:do|did|are|were|have|would|should|will){_NOT}\b|"
        rf"not\b(?! only)|may not\b|won't\b|lack\b|"
        r"seem unable|(?:have|see) (?:no|insufficient|too)\b|are (?:unable|out of|blocked|stuck|no longer|forbidden|"
        r"too)\b|already (?:have|own|did|know|\w+ed)\b|\w+ed already\b|are trying to|used the word|fail(?:ed)?\b|"
        r"try\b.{1,60}\b(?:but|without)\b|bump|hit (?:(?:a|the) (?:\w+ )?wall|your \w+))",
        r"^you've (?:no|not)\b|^(?:do not|don't) have\b",
        unless=r"have no (?:\w+ ){0,2}(?:\w+s|e?mail|money|debt)(?: (?:scheduled|today|yet|at the moment|right now|"
        r"in your \w+(?: \w+)?|on \w+))?\W*$|\b(?:have|see) (?:any|no) \w+s\W*$|have any \w+\W*$|see no(?:thing| one|"
        r"body)\b|\bin check\b|\?\W*$|hungry|thirsty|feel|hear|too far away to make",
        confidence=0.85,
    ),
    # something else is not, or not the kind of thing
    _says(
        rf"\b(?:is|are|was|were|be|been|does|do|did|has|have|had|seems?|appears?|should|would|could|"
        rf"may){_NOT} (?:to be |be |been |being |the |currently |yet |presently |valid |properly |appear to |"
        rf"seem to )*{_SO}(?!\w)",
        r"\b(?:was|were|has been|have been)(?: not|n't) \w+(?:ed|en|un|nt|ne|de)\b",
        rf"^its not\b|^(?:that|this|these|those|they|it)\b[^.,;:]{{0,40}}{_NOT}\b(?! (?:bad|yet|raining|snowing))",
        unless=r"arrived|\bto worry\b",
    ),
    # "Field not found", "email not sent": the style of headlines, without a verb
    _says(
        r"(?<!is)(?<!are) not (?:yet )?(?!required|needed|affected|included|limited|recommended|finished|tested|"
        r"expected|added)(?:\w{3,}ed|found|sent|made|set|put|given|known|held|done|taken|written|enough|in \w+|valid|"
        r"possible|eligible|ready|active|\w+[ai]ble)\b|^not (?!a bad|all|bad)\w+|#not found",
        unless=r"\berrors? not found|\band \d+ not\b",
    ),
    # "that is hardly portable", "it's too steep"
    _says(
        r"\b(?:hardly|scarcely|plainly) \w+|\b(?:achieves?|accomplish(?:es)?) (?:nothing|little)|\b(?:futile|"
        r"fruitless(?:ly)?|pointless|unnecessary|useless)\b|\bno (?:point|use|reason|sense) (?:in |to |try)|"
        r"\b(?:isn't|not) the answer",
        r"^(?:that|this|it) (?:\w+ )?(?:has|contains|holds) no\b",
        rf"^(?:that|this|it)(?: \w+)?(?:'s| is| seems| would be| looks)(?: to be)? (?:{_UNABLE}|impossible|stuck|"
        rf"already|(?:a )?(?:silly|foolish|pointless|useless)|too\b(?! \w+ to be an?\b)|{_FASTENED})",
    ),
)
"""What is not so, though the action needs it."""

ABSENCE = (
    _says(
        r"\bthere(?:'s| is|'re| are| was| were| (?:seem|appear)s? to be)(?:n't| not|) (?:(?:no|any) (?:such|way|"
        r"point|reason|room|path|route|verb|noun)|(?:not )?enough|insufficient|nothing (?:to (?!see|report|show|"
        r"do\b)|like|by that|suitable|you can|here to)|(?:no|any|anything) (?:[\w-]+ ){0,4}?(?:here\b(?!')|"
        r"in that direction|in front of|nearby|by that name|with that|called|named|matching|for that|left|to (?!show|"
        r"display|"
        rf"report|the\b))|an? (?:\w+ ){{0,2}}{_BROKEN} (?:with|in|while|when|on)|already an? )",
        unless=r"\bno (?:one|body) (?:else )?here",
    ),
    # one that was asked for is missing: in the singular, since that there are none of many is an answer
    _says(
        r"(?:^|: )no (?!one\b|body\b|winner|"
        r"\w+ yet)(?:[\w'./\"-]+ ){0,3}?[\w'./\"-]*[^s\W]['\"]? (?:\w*[^s\W] )?(?:here|nearby|found|left|within|with|"
        r"to|of type|by that|(?:in|on|at|for) (?:the|this|that|your)|(?:is|was) (?!seen|needed|required|booked|"
        r"scheduled|due)\w+|match(?:es|ed)?|fits?|named|called|exists?|open|set)\b",
        r"^no (?:such|valid|legal|known|default) \w+|^no (?:route|path|way|rule|exit|door) |^no [\w-]+ (?:left|"
        r"remaining)\b",
        r"^no matching (?!results|flights|records|entries|items)|^no \S+ (?:match(?:es)?|fits?) (?:the|that|this|"
        r"your)|^no \w+ '[^']*' |\bno (?:\w+ ){1,2}(?:was |were |is |are )?(?:supported|provided|given|specified|"
        r"configured|registered|selected|supplied)\b|\bmissing (?:in|from)\b",
        unless=r"^no (?:item|file|device|user|tool)s? (?:in|are|on|yet|at)\b|\bseen\b",
    ),
    _says(
        r"^nothing (?:\w+ )?(?:to (?!commit|do\b|see|show|report|display|update|fetch|push|pull|install|list|print|"
        r"review|worry|compare)|in (?:hand|your|the \w+ to)|matches|like that|by that)|"
        r"\bnothing (?:\w+ ){1,4}to (?!see|show|report|do\b|display|compare|commit)\w+",
        r"\bhas no (?:such|member|method|property|field|column|element|option|attribute|\w+ (?:to|attached|installed|"
        r"here|of that|for|called|named)|\w+ ['\"])|\bwithout an? \w+\W*$",
        r"\bno (?:path|route|way|motion plan|solution|answer)\b(?: \w+)?(?: found| to\b| exists| available| for\b)|"
        r"\bmultiple (?:[\w-]+ )?(?:match|occurrences)",
    ),
    _says(r"\bmissing\b", place="opening", unless=r"\b(?:not|nothing|no) (?:\w+ )?missing"),
    _says(
        r"\bby that name\b|\boffline\W*$|^\w+(?: \w+)? full\W*$|\bout of (?:range|bounds|reach|memory|fuel|ammo|"
        r"stock|mana|power|paper|view)\b|\brun? out\b|\bran out\b|\bruns out\b|\bused up\b|\blacks\b"
    ),
)
"""What is not there."""

NECESSITY = (
    _says(
        r"\b(?:must|needs? to|ha(?:s|ve|d) to|had better|ought to)(?: (?:first|only|not|either|both))? (?!do with)\w+",
        r"\byou'(?:ll (?:need|have)|d (?:need|have|better))\b|^you (?:will |would )?(?:need|must)\b",
        r"\bshould(?: not|n't| only)? (?:be (?!there\b|here\b|ready|back\b|fine|good|great|able|on its|arriv|visible|"
        r"delivered|enough|soon|done|home)\w+|have|match|contain|start|end|not|first|say|specify)\b",
        unless=r"^(?:to|in order to|note|tip|notes|don't|you do not|you don't)\b|\bneed(?:ed)?\W*$|\b(?:no|not|"
        r"n't) need|must-|^no \w+ should",
    ),
    _says(
        r"(?<!not )(?<!no )(?<!action )\b(?:required|mandatory)\W*$|^\w+ needed\b|"
        r"['`\"][\w.\[\]-]+['`\"] is (?:a )?required|\brequires? (?!no\b)\w+|\brequired (?:when|if)\b|"
        r"\bneeds \w+ing\b|^needs? (?!not)\w",
        r"\b(?:required|needed) (?:field|argument|parameter|property|positional|keyword|value|for|to|before|in order|"
        r"key)\b|\bbecause I need\b",
        r"\b(?:field|argument|parameter|property|value|id|input)s?\b.{0,30}\b(?:required|missing)\b|\bneeds (?:an?|"
        r"at least|more|\d)\b",
        unless=r"^(?:to|note|tip|notes)\b|required (?:on|upon|at|for delivery)|\bno\b.*\b(?:required|needed)",
    ),
    _says(
        r"\bexpected\b.{1,80}\b(?:but|got|found|received)\b|^(?:expected|expects) |\bexpects (?:an?|one|\d)|"
        r"takes \d+ positional|\bmutually exclusive\b",
        r"\bavailable:? \d+, (?:requested|needed)|\brequested \d+\b.*\b(?:available|only)|\bbut only \d|"
        r"\b(?:precedes|predates)\b",
        r"\b(?:overlap|conflict|clash|disagree)(?:s|ed)? with\b|\b(?:mismatch|inconsistent|not consistent|"
        r"different from)\b|\bneither\b.* nor\b",
        r"[,;:(] ?(?:but )?(?:got|received|given|found)\b|^(?:got|received|found)\b.{1,40}\b(?:but|both|instead|"
        r"expected)\b|^attempt(?:ed|ing)? to\b",
        r"\b(?:exactly|at most|at least|only|either) one (?:of|must|should)\b|\binstead of\b.{1,40}\W*$|"
        r"\buse \S+ instead\b|\boutside (?:of )?(?:[\[(\d]|(?:the |its |your )?(?:\w+ )?(?:limits?|range|bounds|"
        r"area)\b)",
        unless=r"\bsuccess",
    ),
)
"""What has to be so, or to be done first."""

EXCESS = (
    _says(
        rf"\btoo (?:\w+ly )?{_EXCESS}\b(?! (?:away )?to (?:be an?|show|make out)\b)|\bnot enough\b|\binsufficient\b|"
        rf"\btook too?\b",
        unless=r"never too",
        place="opening",
    ),
    _says(
        rf"\bexceed(?:s|ed|ing)?\b(?! (?:expectations|all))|\b{_LIMIT}\b[\w\s]{{0,20}}\b(?:exceeded|reached|hit)|"
        rf"\b{_LIMIT} (?:is|of)\b",
        rf"\b(?:reached|hit|over|above|below|under) (?:its|the|your|an?) (?:\w+ ){{0,2}}{_LIMIT}|\brate.?limit|"
        rf"\b(?:beyond|past|outside(?: of)?) (?:its|the|your) ",
        r"\b(?:at (?:least|most)|no more than|less than|greater than|larger than) (?:the|\d)|\btimed? ?out\b|"
        r"\btimeout\b(?! is)",
        unless=r"\b(?:finished|complete[d]?|done|saved|you (?:walk|go|see|climb|are))\b|^\w+ (?:the|"
        r"your) \w+ (?:past|beyond)",
    ),
    _says(r"(?<!battery )(?<!tank )(?<!moon )\b(?:is|are|inventory) full\b"),
)
"""What is more, or less, than can be."""

OBSTACLES = (
    _says(
        rf"\b{_STUCK}\b|\b(?:block|bar)(?:s|ed|red|ing|ring) (?:the|your|you|my|by|access)\b|\bprevent(?:s|ed) |"
        rf"\bstops? you\b|\bfends? (?:you|it) off",
        r"\b(?:bump|bounce|run|crash|collid)(?:s|ed|es|e)? (?:off|into|against|with)\b|\bcollision\b|\bhit (?:an? |"
        r"the )?(?:obstacle|wall)\b",
        rf"\b{_FASTENED} (?:up|down|shut|in place|to the \w+)|\b{_BE} (?:all )?(?!locked|sealed|fixed){_FASTENED}\W*$",
        unless=r"unblocked|\bcould be\b|\bno collision|\b0 collision|collision[- ]free",
    ),
    _says(
        rf"\b{_BE} (?:already |completely |fully |all |currently |now )?(?:being )?{_OCCUPIED}(?!\w)",
        r"\balready (?!open|clos|lock|unlock|turn|switch|enabl|disabl|install|satisf|activ|deliver|arriv|ship|lit|"
        r"exhaust)\w+(?:ed|id)\b|['\"] exists\W*$",
        r"\balready (?:exists?|taken|in use|booked|registered|reserved|been|occupied|connected|has|have|holding|"
        r"attached|own|running|an?|on\b|off\b)",
        r"\bstill (?:locked|busy|attached|connected|hot|in use|held|tied|in the way)\b|\balready in progress|"
        r"\banother \w+ (?:is|has) (?:us|already|open|lock|hold)",
        r"\bcurrently (?:holding|carrying|running|[a-z]+ing|busy|in use|playing|occupied|used)\b|\bdevice busy\b|"
        r"\bhands? (?:has|have) something|\bon cooldown\b",
        r"\b(?:belongs? to|was \w+ by|is (?:owned by|reserved for)|limited to) (?:a different|another|someone|"
        r"somebody)\b|\bskipp(?:ing|ed)\b.*\bbecause\b",
        unless=r"\b(?:door|window|drawer|cupboard|valve|gate|box)\b[^.]{0,20}\balready (?:open|closed)",
    ),
)
"""What stands in the way."""

VERDICTS = (
    _says(
        rf"^(?:an? )?{_BAD}\b(?!-)(?: \w|\s*[:.!(',-]|$)|^(?:an? |the )?{_DOUBTFUL} (?:or \w+ )?(?:[\w-]+ )?(?:\w+|"
        rf"['\"])",
        unless=r"^(?:bad|wrong|extra|unknown|missing) (?:news|weather|person|luggage|large|charge)|unknown\W*$",
        confidence=0.85,
        longest=None,
    ),
    _says(
        rf"^[^:.!?]{{0,40}}: (?:an? )?(?:{_BAD}|{_DOUBTFUL}|error|failure) \w|\b(?:{_BE}|has|have|contains?|with|"
        rf"uses?) (?:an? |currently |temporarily )?(?:{_BAD}|wrong\W*$|{_UNABLE}\W*$)",
        rf"\b(?:seems?|appears?|becomes?)(?: to be)? (?:an? )?(?:{_BAD}|{_UNABLE}|wrong)\b|^{_UNABLE}\b|"
        rf"^[\w'\[\] ]{{1,40}} (?:{_UNABLE}|{_BAD})\s*(?:[:;,.!-]|$)",
        unless=r"\bwas unknown",
        place="opening",
    ),
    _says(
        rf"\b{_DEED}\b(?:[^.!?,;\n]|\.\w){{0,60}}?\b(?:{_STOPPED}|failed|invalid|ignored|incomplete|crashed|"
        rf"cancelled by)\b|\b(?:{_BE}|has|get|gets) {_STOPPED}\b",
        rf"^(?:\w+ ){{0,3}}{_STOPPED}\b(?: by\b|[,:;.]|\W*$)",
        unless=r"\b(?:0|no|zero) (?:\w+ )?(?:failed|rejected|errors)|\bas (?:failed|rejected)|\bcompleted\b",
    ),
    _says(
        r"\b(?:has|have) (?:already )?(?:expired|ended|closed|crashed|died|been (?:discontinued|disabled|deactivated|"
        r"suspended|deleted|closed))\b|went wrong",
        rf"\b(?:session|token|link|code) (?:has |is )?expired|\bpage crashed|\b(?:fizzles|slipped)\b|"
        rf"\b{_BROKEN} (?:has |have )?(?:occurred|encountered)|\b(?:encountered|ran into|caused|threw|raised|"
        rf"returned|gave|introduced|contains?) (?:an? |new |some )*(?:\w+ )?{_BROKEN}",
        r"\bconnection (?:refused|reset|closed|error)|\breturned (?:an? )?(?:status |code |error |http )*[45]\d\d\b|"
        r"\bdivi(?:sion|ded?) by (?:zero|0)\b|\bunexpected (?:keyword|token|argument|character|error|eof|indent|end)|"
        r"\b(?:ignored|discarded)\W*$|\b(?:was|were) (?:ignored|discarded|skipped)\b",
        r"\bviolat(?:ion|es|ed|ing)\b|\bexited with (?:an error|non-?zero|(?:code|status) (?!0\b))|\bdid(?: not|"
        r"n't) change\b",
        unless=r"\bcreature\b|battery has died|\b(?:no|0|zero) (?:\w+ )?violations?",
    ),
)
"""What is wrong with the action, and how it ended."""

DEFAULT_PHRASES: tuple[Phrase, ...] = (
    *ERRORS,
    *VERDICTS,
    *INABILITY,
    *NEGATIONS,
    *ABSENCE,
    *NECESSITY,
    *EXCESS,
    *OBSTACLES,
    *REPLIES,
)
"""The general language of failure."""
