"""Secrets in texts of models and transcripts, masked before they are written, without any network.

``[masked: GitHub Token]`` replaces a secret, in the event and in everything rendered from it. Masking a text again
changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
import re
from typing import Any, Final, NamedTuple

from tallybook.ledger.errors import BadInputError, Problem

KEY_BLOCK: Final = "Private Key"
OTHER: Final = "Other Token"
"""The name of a token that only its shape shows."""

_HEX: Final = "[0-9a-f]"
_UPPER: Final = "[A-Z0-9]"
_ALNUM: Final = "[A-Za-z0-9]"
_WORD: Final = r"[\w-]"
_BASE64: Final = r"[\w+/=-]"
_DOTTED: Final = r"[\w.-]"
# A name in code has no digit so early.
_DIGIT: Final = r"(?=[A-Za-z_-]{0,30}\d)"
_THREE_DIGITS: Final = r"(?=(?:[^\s\d]{0,40}\d){3})"
# One digit group of an id in Discord's tokens, in base64.
_DIGITS_64: Final = "[MNO][DTjz][AEIMQUYcgk][w-z0-5]"

# Exact formats, and no guess by entropy or keywords: what a guess masks is lost for ever. A table of our own, because
# a catalogue of somebody else knew 18 of 50 formats and took 0.3 s to load.
PREFIXED: Final = (
    # Name, prefix, alphabet and least length of what follows. A mask goes on to the end of the run: formats grow.
    ("1Password Token", "ops_eyJ", _BASE64, 60),
    ("1Password Secret Key", f"A3-{_UPPER}{{6}}-", "[A-Z0-9-]", 24),
    ("AWS Access Key", "(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])", _UPPER, 16),
    ("AWS Bedrock Key", "(?:ABSK|bedrock-api-key-)", _BASE64, 60),
    ("Age Secret Key", "AGE-SECRET-KEY-(?:PQ-)?1", _ALNUM, 50),
    ("Airtable Token", f"pat{_ALNUM}{{14}}\\.", _HEX, 64),
    ("Aiven Password", "AVNS_", _WORD, 15),
    ("Alibaba Access Key", f"LTAI{_DIGIT}", _ALNUM, 16),
    ("Anthropic API Key", r"sk-ant-[a-z]{3,9}\d\d-", _WORD, 20),
    ("Apify Token", "apify_api_", _ALNUM, 30),
    ("Artifactory Credentials", "(?:AKC|cmVmdGtu)", _ALNUM, 50),
    (
        "Artifactory Credentials",
        rf"(?<![\w+/-])(?<!sha\d\d\d=)AP[0-9A-F](?=\w{{24,90}}(?![\w+/-])){_DIGIT}",
        _ALNUM,
        24,
    ),
    ("Asana Token", r"\d/\d{10,20}(?:/\d{5,20})?:", _HEX, 32),
    ("Atlassian Token", "(?:AT[AC]TT3|ATBB)", r"[\w=-]", 32),
    ("Azure Client Secret", r"[\w.~-]{3}\dQ~", r"[\w.~-]", 31),
    ("Azure Key", f"{_ALNUM}{{52}}JQQJ9[9DH]", _ALNUM, 26),
    ("Brevo API Key", "x(?:key|smtp)sib-", _HEX, 64),
    ("Buildkite Token", "bk[a-z]{2}_", _HEX, 40),
    ("Cerebras API Key", "csk-", _ALNUM, 40),
    ("CircleCI Token", "CCIP(?:AT|RJ)_", r"\w", 40),
    ("Clojars Token", "CLOJARS_", _HEX, 50),
    ("Cloudflare Origin Key", r"v1\.0-[0-9a-f]{24}-", _HEX, 140),
    ("Contentful Token", "CFPAT-", _WORD, 40),
    ("crates.io Token", f"cio{_DIGIT}", _ALNUM, 32),
    ("Databricks Token", "dapi", _HEX, 32),
    ("Datadog Token", "ddp_", _ALNUM, 30),
    ("DigitalOcean Token", "do[opr]_v1_", _HEX, 64),
    ("Discord Bot Token", rf"(?:{_DIGITS_64}){{5,6}}[\w-]{{0,3}}\.[\w-]{{6,7}}\.", _WORD, 27),
    ("Discord Bot Token", r"mfa\.", _WORD, 80),
    ("Discord Webhook", r"https://(?:\w{1,10}\.)?discord(?:app)?\.com/api/webhooks/\d{15,20}/", _WORD, 60),
    ("Docker Token", "dckr_[op]at_", _WORD, 20),
    ("Doppler Token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{2,35}\.)?", _ALNUM, 40),
    ("Dropbox Token", r"sl\.(?:u\.)?", _WORD, 80),
    ("Duffel Token", "duffel_(?:live|test)_", _WORD, 30),
    ("Dynatrace Token", rf"dt0[a-z]\d\d\.{_UPPER}{{24}}\.", _ALNUM, 60),
    ("E2B API Key", "e2b_", _HEX, 40),
    ("EasyPost Token", "EZ[AT]K", _ALNUM, 50),
    ("ElevenLabs API Key", "sk_", _HEX, 48),
    ("Facebook Token", "EAA", _ALNUM, 80),
    ("Figma Token", "fig[a-z]{1,2}_", _WORD, 30),
    ("Firecrawl API Key", "fc-", _HEX, 32),
    ("Fireworks API Key", f"fw_{_DIGIT}", _ALNUM, 22),
    ("Flutterwave Secret Key", "FLWSECK[A-Z_]{0,8}-", _WORD, 20),
    ("Fly.io Token", "f(?:o1|m[12][ar]?)_", r"[\w+/=,-]", 40),
    ("GitHub Token", "gh[oprsu]_", _ALNUM, 36),
    ("GitHub Token", "github_pat_", r"\w", 60),
    ("GitLab Token", "gl(?:pat|dt|rt|rtr|ptt|agent|oas|soat|cbt|ft|imt|wt|ffct)-", _DOTTED, 20),
    ("GitLab Token", "GR1348941", _WORD, 20),
    ("Google API Key", "AIza", _WORD, 35),
    ("Google API Key", r"AQ\.Ab", _WORD, 40),
    ("Google OAuth Secret", "GOCSPX-", _WORD, 24),
    ("Google OAuth Token", r"(?:1//0|ya29\.)", _DOTTED, 30),
    ("Grafana Token", "gl(?:sa_|c_eyJ)", _BASE64, 32),
    ("Groq API Key", "gsk_", _ALNUM, 40),
    ("Heroku API Key", "HRKU-", _WORD, 36),
    ("HubSpot Token", r"pat-[a-z]{2}\d-", _WORD, 36),
    ("Hugging Face Token", "(?:hf|api_org)_", _ALNUM, 30),
    ("Jina API Key", "jina_", _ALNUM, 40),
    ("Langfuse Secret Key", "sk-lf-", _WORD, 36),
    ("LangSmith API Key", "lsv2_(?:pt|sk)_", r"\w", 32),
    ("Linear Token", "lin_(?:api|oauth|wh)_", _ALNUM, 32),
    ("Mailchimp Access Key", r"[0-9a-z]{32}-us(?=\d)", r"\d", 1),
    ("Mailgun API Key", r"(?<![\w-])key-", _HEX, 32),
    ("Mailgun API Key", "[0-9a-f]{32}-[0-9a-f]{8}-", _HEX, 8),
    ("Mandrill API Key", f"md-{_DIGIT}", r"\w", 22),
    ("Mapbox Token", r"sk\.eyJ", _DOTTED, 50),
    ("MongoDB Atlas Secret", "mdb_sa_sk_", _WORD, 30),
    ("Neon API Key", "napi_", _ALNUM, 40),
    ("Netlify Token", "nfp_", _ALNUM, 36),
    ("New Relic Key", "NR(?:AK|AA|II|IQ)-", _WORD, 20),
    ("Notion Token", "(?:ntn|secret)_", _ALNUM, 40),
    ("npm Token", "npm_", _ALNUM, 36),
    ("NuGet API Key", f"oy2{_DIGIT}", "[a-z0-9]", 43),
    ("NVIDIA API Key", "nvapi-", _WORD, 40),
    ("OpenAI Token", "sk-(?:proj|svcacct|admin|service|None)-", _WORD, 20),
    ("OpenAI Token", f"(?<![_-])sk-{_DIGIT}", _ALNUM, 20),
    ("OpenAI Token", r"sk-[\w-]{0,64}T3BlbkFJ", _WORD, 20),
    ("OpenRouter API Key", "sk-or-v1-", _HEX, 64),
    ("Packagist Token", "packagist_[a-z]{3}_", _HEX, 40),
    ("PayPal Token", r"access_token\$[a-z]{3,12}\$[0-9a-z]{16}\$", _HEX, 32),
    ("Perplexity API Key", "pplx-", _ALNUM, 40),
    ("Pinecone API Key", "pcsk_", r"\w", 40),
    ("Plaid Token", "access-(?:sandbox|development|production)-", _WORD, 36),
    ("PlanetScale Token", "pscale_(?:tkn|oauth|pw)_", r"[\w=.-]", 30),
    ("Polar Token", "polar_(?:[a-z]{2,4}_){0,2}", _ALNUM, 30),
    ("PostHog API Key", "ph[rsx]_", _ALNUM, 30),
    ("Postman API Key", "PMAK-", _WORD, 50),
    ("Prefect API Key", "pn[bu]_", _ALNUM, 36),
    ("Pulumi Token", "pul-", _HEX, 40),
    ("PyPI Token", r"pypi-(?=\w{0,45}\d)", _WORD, 50),
    ("ReadMe API Key", "rdme_", _ALNUM, 60),
    ("Render API Key", f"rnd_{_DIGIT}", _ALNUM, 24),
    ("Replicate Token", "r8_", _ALNUM, 37),
    ("Resend API Key", f"re_{_ALNUM}{{8}}_", _ALNUM, 20),
    ("RubyGems Token", "rubygems_", _HEX, 40),
    ("RunPod API Key", "rpa_", _ALNUM, 40),
    ("SendGrid API Key", r"SG\.[\w-]{16,32}\.", _WORD, 30),
    ("Sentry Token", "sntry[su]_", _BASE64, 40),
    ("Shippo Token", "shippo_(?:live|test)_", _HEX, 40),
    ("Shopify Token", "shp(?:at|ca|pa|ss|ua|tka)_", _ALNUM, 32),
    ("Slack Token", "x(?:ox[a-z]|app|wfp)-", _WORD, 20),
    ("Slack Webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/", r"[\w/+-]", 20),
    ("SonarQube Token", "sq[apu]_", _HEX, 40),
    ("Sourcegraph Token", "sgp_", r"\w", 40),
    ("Square OAuth Secret", "sq0(?:atp|csp)-", _WORD, 22),
    ("Square OAuth Secret", "EAAA", _WORD, 60),
    ("Stripe Access Key", "[rs]k_(?:live|test|prod)_", _ALNUM, 20),
    ("Stripe Webhook Secret", "whsec_", "[A-Za-z0-9+/=]", 24),
    ("Supabase Token", "(?:sbp_(?:[a-z0-9]{2,5}_)?|sb_secret_)", _WORD, 30),
    ("Tailscale Key", "tskey-", _WORD, 20),
    ("Tavily API Key", f"tvly-{_DIGIT}", _WORD, 20),
    ("Telegram Bot Token", r"\d{8,10}:(?=[\w-]{35}(?![\w-]))", _WORD, 35),
    ("Tencent Access Key", f"AKID{_DIGIT}", _ALNUM, 32),
    ("Terraform Token", rf"{_ALNUM}{{14}}\.atlasv1\.", _WORD, 50),
    ("Together API Key", "tgp_v1_", _WORD, 40),
    ("Twilio API Key", "(?:AC|SK)", _HEX, 32),
    ("Typeform Token", "tfp_", _WORD, 40),
    ("Vault Token", r"hv[brs]\.(?=[\w-]{0,60}\d)", _WORD, 20),
    ("Vercel Token", "vc[acikpr]_", _ALNUM, 24),
    ("WakaTime Token", "waka_(?:[a-z]{3}_)?", _WORD, 36),
    ("Weights & Biases Key", "wandb_v1_", _WORD, 40),
    ("xAI API Key", "xai-", _ALNUM, 60),
    ("Yandex API Key", "(?:AQVN|y0_)", _WORD, 35),
)
# At the beginning of a word, behind a colour of a terminal, or behind a break as JSON or an address writes it.
_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]|[\d;[]m)|(?<=%[2-7][0-9A-F]))"

# A name that says that its value is a secret.
_SAYS: Final = (
    r"(?<!\w)\w{0,40}?(?:(?:api|access|account|admin|app|auth|bearer|bot|client|deploy|master|oauth|private|refresh|secret|service|signing)"
    r"[_-]?(?:key|secret|token)|password|passwd)"
)
_IS: Final = r"""\\?["']?(?:\s{0,4}(?:=>|:=|::|[=:])\s{0,4}|\s{1,4})\\?["'`]?"""

_PLACEHOLDER: Final = r"(?i:pass(?:word|wd)?|pwd?|secret|token|x{1,20}|\*{1,20})"


# Repeats are bounded or possessive, so that each expression takes time that is linear in the text's length.
IN_CONTEXT: Final = (
    # Name; a name before the secret, however a setting, code or JSON writes it, or empty; an expression for the secret,
    # which without a name before it is a group in one for its context.
    ("AWS Access Key", r"(?:aws|secret_?access)[\w-]{0,30}key", r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"),
    ("Azure Storage Account access key", "", r"(?:Account|SharedAccess|Access)Key=([A-Za-z0-9+/]{40,}={0,2})"),
    ("Azure Signature", "", r"[?&;]sig=((?:[A-Za-z0-9+/]|%[0-9A-Fa-f]{2}){40,}={0,2})"),
    ("Cloudant Credentials", r"clou(?:dant)?[\w-]{0,20}(?:key|pass\w{0,4}|pwd|pw)", "[0-9a-f]{64}|[a-z]{24}"),
    ("IBM Cloud IAM Key", r"(?:ibm|iam|cloud|bluemix)[\w-]{0,30}(?:key|token)", rf"{_DIGIT}[\w-]{{44}}(?![\w-])"),
    ("IBM COS HMAC Credentials", r"(?:ibm|cos|hmac)[\w-]{0,30}(?:key|secret)", "[0-9a-f]{48}"),
    ("SoftLayer Credentials", r"(?:softlayer|sl)[\w-]{0,20}(?:key|pass\w{0,4}|pwd|pw)", "[0-9a-z]{64}"),
    ("SoftLayer Credentials", "", r"softlayer\.com/(?:soap|xmlrpc|rest)/v3(?:\.1)?/([0-9a-z]{64})"),
    ("npm Token", "", r"""(?<![A-Za-z0-9])_auth(?:Token)?=\s{0,4}["']?([\w+/=-]{16,})"""),
    # Header, payload and signature. The first of its run is looked for once, because a run can hold many beginnings.
    ("JSON Web Token", "", r"(?<![\w-])(?>[\w-]*?(?=eyJ))(eyJ[\w-]{8,}+=*+\.[\w-]{8,}+=*+(?:\.[\w=+/-]*+)?)"),
    (
        "Bearer Token",
        "",
        rf"(?i:bearer|ssws|authorization: ?(?:basic|token)) {{1,4}}({_THREE_DIGITS}[\w.~+/-]{{20,}}={{0,2}})",
    ),
    ("Named Secret", _SAYS, rf"{_THREE_DIGITS}[\w~+/-]{{20,}}={{0,2}}"),
    (
        "Basic Auth Credentials",
        "",
        rf"""://[^\s/?#@:"'<>]{{0,64}}:(?!{_PLACEHOLDER}@)([^\s/?#@"'<>{{}}$[\]]{{1,256}})@""",
    ),
    (KEY_BLOCK, "", r"((?:-{2,5} ?)?BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY|PuTTY-User-Key-File-\d)"),
)
NAMES: Final = frozenset({OTHER, *(row[0] for row in (*PREFIXED, *IN_CONTEXT))})

# What can be a token of the common shape: a word, a separator and more, but no part of a path or an address.
_RUN: Final = re.compile(r"(?<![\w./@\\-])(?<!sha\d\d\d=)[A-Za-z][\w.-]{27,}+(?![/@\\(])", re.ASCII)
_MAX_RUN_CHARS: Final = 300
_SEPARATOR: Final = re.compile(r"[_.-]")
# Digests and the names of files that end with one.
_DIGEST: Final = re.compile(r"(?i:sha\d|md5)|.*\.[a-z]{1,5}\d?\Z", re.ASCII)
# Words of a name; hex alone is a digest, and part of a UUID.
_ORDINARY: Final = re.compile(r"[0-9a-f]*|[0-9A-F]*|[A-Za-z]*")
_CHANGE: Final = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_MIN_MIXED_CHARS, _MIN_CHANGES = 26, 4


class SecretSpan(NamedTuple):
    """The place of a secret: from ``begin`` up to ``end``, in characters."""

    begin: int
    end: int
    name: str


def find(text: str) -> Iterator[SecretSpan]:
    """Yield the place and the name of each secret; places may overlap.

    What needs its context comes last. Tokens that only their shape shows are those of a text without others.
    """
    exact = False
    for pattern, names in _compile():
        for match in pattern.finditer(text):
            exact = True
            index = match.lastindex or 1
            begin, end = match.span(index)
            # An exact format ends with an empty group, which says which format it is.
            yield SecretSpan(match.start() if begin == end else begin, end, names[index - 1])
    for match in () if exact else _RUN.finditer(text):
        if _is_token(run := match[0].rstrip("._-")):
            yield SecretSpan(match.start(), match.start() + len(run), OTHER)


@cache
def _compile() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    """Return the expressions of the two tables, with a name for each of their groups."""
    prefixed = "|".join(rf"{prefix}{alphabet}{{{least},}}(?<!\.)()" for _, prefix, alphabet, least in PREFIXED)
    return (
        (re.compile(f"{_START}(?:{prefixed})", re.ASCII), tuple(row[0] for row in PREFIXED)),
        *(
            (re.compile(rf"(?<![A-Za-z0-9])(?i:{label}){_IS}({secret})" if label else secret, re.ASCII), (name,))
            for name, label, secret in IN_CONTEXT
        ),
    )


def _is_token(run: str) -> bool:
    """Return whether a run has the shape of most tokens: a word, and much in which letters and digits mix."""
    if len(run) > _MAX_RUN_CHARS or _DIGEST.match(run):
        return False
    # This shape fits no name in 100 MB of code.
    mixed = [word for word in _SEPARATOR.split(run)[1:] if not _ORDINARY.fullmatch(word)]
    return (
        len(" ".join(mixed)) >= _MIN_MIXED_CHARS and sum(len(_CHANGE.findall(word)) for word in mixed) >= _MIN_CHANGES
    )


_LABEL = re.compile(rf"\[masked: (?:{'|'.join(map(re.escape, sorted(NAMES)))})\]")
_RUN_END = re.compile(r"[A-Za-z0-9_-]*+")
_KEY_END = re.compile(r"END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?(?: ?-{2,5})?|Private-MAC: ?[0-9a-fA-F]+")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}+")


def list_formats(text: str) -> tuple[str, ...]:
    """Return the format of each secret in a text, in its order, and nothing of the secret itself."""
    return tuple(span.name for span in _spans(text))


def mask(text: str, formats: list[str] | None = None) -> str:
    """Return a text with a mask in the place of each secret; masking what comes of it again changes nothing.

    Args:
        text: The text; the very object is returned if it has no secret.
        formats: Gets the format of each masked secret, in the order of the text; None for no need of them.
    """
    # One mask can uncover a match next to it. Each leaves less to search.
    while spans := _spans(text):
        parts, at = [], 0
        for span in spans:
            parts += [text[at : span.begin], f"[masked: {span.name}]"]
            at = span.end
        text = "".join((*parts, text[at:]))
        if formats is not None:
            formats += [span.name for span in spans]
    return text


def mask_extraction(payload: Any, problems: list[Problem]) -> Any:
    """Return an extraction result with every string in it masked, keys too; add a problem for each masked item.

    Raises:
        BadInputError: It is nested too deeply to look through.
    """
    if not isinstance(payload, dict):
        return payload
    masked: dict[Any, Any] = {}
    try:
        for field, value in payload.items():
            if field in {"new_key_points", "evaluations"} and isinstance(value, list):
                masked[field] = [mask_item(f"{field}[{index}]", item, problems) for index, item in enumerate(value)]
            else:
                masked |= mask_item("payload", {field: value}, problems)
    except RecursionError as error:
        raise BadInputError("payload", "is nested too deeply", "nothing was recorded") from error
    return masked


def mask_item(place: str, value: Any, problems: list[Problem]) -> Any:
    """Return a JSON value, whose depth is bounded, with every string in it masked; add a problem if there was one."""
    names: list[str] = []
    masked = _mask_value(value, names)
    if names:
        number = "a secret was" if len(names) == 1 else f"{len(names)} secrets were"
        problems.append(Problem(place, f"{number} masked ({', '.join(dict.fromkeys(names))})"))
    return masked


def _mask_value(value: Any, names: list[str]) -> Any:
    """Return a JSON value with its strings masked; add the format of each secret to ``names``."""
    if isinstance(value, str):
        return mask(value, names)
    if isinstance(value, list):
        return [_mask_value(item, names) for item in value]
    if isinstance(value, dict):
        return {_mask_value(key, names): _mask_value(item, names) for key, item in value.items()}
    return value


def _spans(text: str) -> list[SecretSpan]:
    """Return the places of the secrets in a text, in order and without overlaps."""
    # A label's own words ("Access Key]") must not count as the keyword of what follows. Brackets belong to no token, no
    # password and no name.
    text = _LABEL.sub(lambda label: "[" * len(label[0]), text)
    # Of formats that begin at one place the first is named.
    return _join(text, sorted(_with_blocks(text, [*find(text)]), key=lambda span: span.begin))


def _join(text: str, spans: Sequence[SecretSpan]) -> list[SecretSpan]:
    """Return spans extended to the end of their runs of token characters; those that then overlap become the first.

    Formats grow, and an expression that knows the first 24 characters of a key would leave the rest readable.
    """
    joined: list[SecretSpan] = []
    for span in spans:
        if joined and span.end <= joined[-1].end:
            continue
        run = _RUN_END.match(text, span.end)
        extended = span._replace(end=run.end() if run else span.end)
        if joined and span.begin < joined[-1].end:
            extended = joined.pop()._replace(end=extended.end)
        joined.append(extended)
    return joined


def _with_blocks(text: str, spans: list[SecretSpan]) -> list[SecretSpan]:
    """Return spans with each private key's extended to its end line; without one, to the last line of a key."""
    if all(span.name != KEY_BLOCK for span in spans):
        return spans
    ends = [match.end() for match in _KEY_END.finditer(text)]
    last = max((match.end() for match in _KEY_BODY.finditer(text)), default=0)

    def block_end(span: SecretSpan) -> int:
        index = bisect_left(ends, span.end)
        return ends[index] if index < len(ends) else max(span.end, last)

    return [span._replace(end=block_end(span)) if span.name == KEY_BLOCK else span for span in spans]
