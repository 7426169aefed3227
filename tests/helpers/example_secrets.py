"""A secret of every format within a text, assembled here, so that no scanner finds one in this file."""

from __future__ import annotations

import base64
import json
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from helpers.commands import ROOT

MIXED = (
    "".join(f"{a}{i % 10}{b}" for i, (a, b) in enumerate(zip(ascii_lowercase, ascii_uppercase[::-1], strict=True))) * 2
)
UPPER, LOWER, HEX = MIXED.upper(), MIXED.lower(), "0a1b2c3d4e5f6789" * 8


def part(value: object) -> str:
    """Return a JSON value as a part of a JSON Web Token."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class Example(NamedTuple):
    """A secret within a text.

    Attributes:
        name: Its format.
        secret: What is masked.
        before: The text that must precede it, and stays.
        after: The text that must follow it, and stays.
    """

    name: str
    secret: str
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """The secret with the text that its format needs around it."""
        return f"{self.before}{self.secret}{self.after}"

    @property
    def masked(self) -> str:
        """The same without the secret."""
        return f"{self.before}[masked: {self.name}]{self.after}"


def key_block(kind: str) -> str:
    """Return a private key as in its file."""
    body = ("Proc-Type: 4,ENCRYPTED", "", MIXED[:64], MIXED[3:67], MIXED[:20] + "==")
    return "\n".join((f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"))


KINDS = {
    "mixed": MIXED * 2,
    "upper": UPPER,
    "lower": LOWER,
    "hex": HEX,
    "hex2": HEX * 2,
    "uuid": "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9",
    "openai": MIXED[:20] + "T3Blbk" + "FJ" + MIXED[:20],
}


def read_prefixed(line: str) -> Example:
    """Return the example of a line: format, prefix in two parts, characters that follow it, and how many."""
    name, prefix, kind = (field.strip() for field in line.split("|"))
    kind, length = kind.split()
    return Example(name, prefix.replace(" ", "") + KINDS[kind][: int(length)])


EXAMPLES = [
    *map(read_prefixed, (ROOT / "tests/data/prefixed-secrets.txt").read_text(encoding="utf-8").splitlines()),
    Example("AWS Access Key", "AKI" + "A" + UPPER[:16]),
    Example("AWS Access Key", MIXED[:40], 'aws_secret_access_key = "', '"'),
    Example("AWS Access Key", MIXED[:40], "aws_secret_access_key" + " = ", " is set"),
    Example("Anthropic API Key", "sk-" + "ant-api03-" + MIXED[:92] + "-AA"),
    Example("Anthropic API Key", "sk-" + "ant-oat01-" + MIXED[:92] + "_AA"),
    Example("Artifactory Credentials", "AK" + "C" + MIXED[:70], "token "),
    Example("Artifactory Credentials", "A" + "P5" + MIXED[:30], '"', '"'),
    Example("Azure Storage Account access key", MIXED[:78] + "/+", "AccountName=a;Account" + "Key=", ";"),
    Example("Azure Signature", MIXED[:40] + "%2B" + "%3D", "https://a.local/x?sv=1&" + "sig=", "&se=2"),
    Example("Bearer Token", MIXED[:40] + ".x/y", "Authorization: Bea" + "rer "),
    Example("Named Secret", MIXED[:40], "CLOUDFLARE_API" + "_TOKEN=", " in .env"),
    Example("Named Secret", MIXED[:22], '{"openai' + 'ApiKey": "', '"}'),
    Example("Other Token", "new" + "co_" + MIXED[:40], "token ", "."),
    Example("Other Token", "new" + "co-live-eu." + LOWER[:32]),
    Example("Basic Auth Credentials", "hunter2-é", "postgres://app" + ":", "@db.local:5432/x"),
    Example("Cloudant Credentials", HEX[:64], "cloudant_api" + "key = '", "'"),
    Example("Cloudant Credentials", "abcdefghijklmnopqrstuvwx", "clou_pass" + "word: ", "."),
    *(
        Example("Discord Bot Token", f"{base64.b64encode(id_).decode().rstrip('=')}.{MIXED[:6]}.{MIXED[:length]}")
        for id_, length in ((b"12345678901234567", 27), (b"987654321098765432", 38), (b"1122334455667788990", 38))
    ),
    Example("GitHub Token", "gh" + "p_" + MIXED[:36]),
    Example("GitHub Token", "gh" + "s_" + MIXED[:36]),
    Example("GitHub Token", "github" + "_pat_" + MIXED[:22] + "_" + MIXED[:59]),
    Example("GitLab Token", "gl" + "pat-" + MIXED[:20]),
    Example("GitLab Token", "gl" + "cbt-3f_" + MIXED[:20]),
    Example("GitLab Token", "GR" + "1348941" + MIXED[:20]),
    Example("GitLab Token", "gl" + "imt-" + MIXED[:25]),
    Example("GitLab Token", "gl" + "ptt-" + MIXED[:40]),
    Example("GitLab Token", "gl" + "agent-" + MIXED[:60]),
    Example("GitLab Token", "gl" + "oas-" + MIXED[:64]),
    Example("Google API Key", "AI" + "za" + MIXED[:35]),
    Example("IBM COS HMAC Credentials", HEX[:48], "cos_hmac_secret_access" + "_key: ", ","),
    Example("IBM Cloud IAM Key", MIXED[:44], "ibm_cloud_iam_api" + '_key="', '"'),
    Example("JSON Web Token", ".".join((part({"alg": "HS256"}), part({"sub": "me"}), MIXED[:43]))),
    Example("Mailchimp Access Key", HEX[:32] + "-u" + "s12"),
    Example("npm Token", "np" + "m_" + MIXED[:36]),
    Example("npm Token", "np" + "m_" + MIXED[:20], "//npm.local/:_auth" + "Token="),
    Example("OpenAI Token", "s" + "k-" + MIXED[:20] + "T3Blbk" + "FJ" + MIXED[:20]),
    Example("OpenAI Token", "s" + "k-proj-" + MIXED[:70] + "-x_" + "T3Blbk" + "FJ" + MIXED[:70] + "-_A"),
    Example("OpenRouter API Key", "s" + "k-or-v1-" + HEX[:64]),
    *(
        Example("Private Key", key_block(f"{kind}PRIVATE " + "KEY"))
        for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "SSH2 ENCRYPTED ")
    ),
    Example("Private Key", key_block("PGP PRIVATE " + "KEY BLOCK")),
    Example("Private Key", key_block("RSA PRIVATE " + "KEY").replace("\n", "\\n"), 'key: "', '"'),
    Example(
        "Private Key",
        "PuTTY-User" + "-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n" + MIXED[:64] + "\nPrivate-MAC: " + HEX[:40],
    ),
    Example("PyPI Token", "pypi-" + "AgEIcHlwaS5vcmc" + MIXED[:80]),
    Example("PyPI Token", "pypi-" + "AgENdGVzdC5weXBpLm9yZw" + MIXED[:80]),
    Example("SendGrid API Key", "S" + "G." + MIXED[:22] + "." + MIXED[:43]),
    Example("Slack Token", "xox" + "b-123456789012-1234567890123-" + MIXED[:24]),
    Example("Slack Webhook", "https://hooks." + "slack.com/services/T0A1B2C3/B0A1B2C3/" + MIXED[:24]),
    Example("SoftLayer Credentials", HEX[:64], "softlayer_api" + "_key = ", ";"),
    Example("SoftLayer Credentials", HEX[:64], "https://api.softlayer" + ".com/soap/v3.1/"),
    Example("Square OAuth Secret", "sq0" + "csp-" + MIXED[:43]),
    # As long as they are today: detect-secrets knows the first 24 characters.
    Example("Stripe Access Key", "sk_" + "live_51" + MIXED[:97]),
    Example("Telegram Bot Token", "123456" + "7890:" + MIXED[:35]),
    Example("Twilio API Key", "A" + "C" + HEX[:32]),
    Example("Twilio API Key", "S" + "K" + HEX[:32]),
]
GITHUB = next(example for example in EXAMPLES if example.name == "GitHub Token")
STRIPE = next(example for example in EXAMPLES if example.name == "Stripe Access Key")
