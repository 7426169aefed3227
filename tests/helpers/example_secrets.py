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


class SecretExample(NamedTuple):
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


def read_prefixed(line: str) -> SecretExample:
    """Return the example of a line: format, prefix in two parts, characters that follow it, and how many."""
    name, prefix, kind = (field.strip() for field in line.split("|"))
    kind, length = kind.split()
    return SecretExample(name, prefix.replace(" ", "") + KINDS[kind][: int(length)])


EXAMPLES = [
    *map(read_prefixed, (ROOT / "tests/data/prefixed-secrets.txt").read_text(encoding="utf-8").splitlines()),
    SecretExample("AWS Access Key", "AKI" + "A" + UPPER[:16]),
    SecretExample("AWS Access Key", MIXED[:40], 'aws_secret_access_key = "', '"'),
    SecretExample("AWS Access Key", MIXED[:40], "aws_secret_access_key" + " = ", " is set"),
    SecretExample("Anthropic API Key", "sk-" + "ant-api03-" + MIXED[:92] + "-AA"),
    SecretExample("Anthropic API Key", "sk-" + "ant-oat01-" + MIXED[:92] + "_AA"),
    SecretExample("Artifactory Credentials", "AK" + "C" + MIXED[:70], "token "),
    SecretExample("Artifactory Credentials", "A" + "P5" + MIXED[:30], '"', '"'),
    SecretExample("Azure Storage Account access key", MIXED[:78] + "/+", "AccountName=a;Account" + "Key=", ";"),
    SecretExample("Azure Signature", MIXED[:40] + "%2B" + "%3D", "https://a.local/x?sv=1&" + "sig=", "&se=2"),
    SecretExample("Bearer Token", MIXED[:40] + ".x/y", "Authorization: Bea" + "rer "),
    SecretExample("Named Secret", MIXED[:40], "CLOUDFLARE_API" + "_TOKEN=", " in .env"),
    SecretExample("Named Secret", MIXED[:22], '{"openai' + 'ApiKey": "', '"}'),
    SecretExample("Other Token", "new" + "co_" + MIXED[:40], "token ", "."),
    SecretExample("Other Token", "new" + "co-live-eu." + LOWER[:32]),
    SecretExample("Basic Auth Credentials", "hunter2-é", "postgres://app" + ":", "@db.local:5432/x"),
    SecretExample("Cloudant Credentials", HEX[:64], "cloudant_api" + "key = '", "'"),
    SecretExample("Cloudant Credentials", "abcdefghijklmnopqrstuvwx", "clou_pass" + "word: ", "."),
    *(
        SecretExample("Discord Bot Token", f"{base64.b64encode(id_).decode().rstrip('=')}.{MIXED[:6]}.{MIXED[:length]}")
        for id_, length in ((b"12345678901234567", 27), (b"987654321098765432", 38), (b"1122334455667788990", 38))
    ),
    SecretExample("GitHub Token", "gh" + "p_" + MIXED[:36]),
    SecretExample("GitHub Token", "gh" + "s_" + MIXED[:36]),
    SecretExample("GitHub Token", "github" + "_pat_" + MIXED[:22] + "_" + MIXED[:59]),
    SecretExample("GitLab Token", "gl" + "pat-" + MIXED[:20]),
    SecretExample("GitLab Token", "gl" + "cbt-3f_" + MIXED[:20]),
    SecretExample("GitLab Token", "GR" + "1348941" + MIXED[:20]),
    SecretExample("GitLab Token", "gl" + "imt-" + MIXED[:25]),
    SecretExample("GitLab Token", "gl" + "ptt-" + MIXED[:40]),
    SecretExample("GitLab Token", "gl" + "agent-" + MIXED[:60]),
    SecretExample("GitLab Token", "gl" + "oas-" + MIXED[:64]),
    SecretExample("Google API Key", "AI" + "za" + MIXED[:35]),
    SecretExample("IBM COS HMAC Credentials", HEX[:48], "cos_hmac_secret_access" + "_key: ", ","),
    SecretExample("IBM Cloud IAM Key", MIXED[:44], "ibm_cloud_iam_api" + '_key="', '"'),
    SecretExample("JSON Web Token", ".".join((part({"alg": "HS256"}), part({"sub": "me"}), MIXED[:43]))),
    SecretExample("Mailchimp Access Key", HEX[:32] + "-u" + "s12"),
    SecretExample("npm Token", "np" + "m_" + MIXED[:36]),
    SecretExample("npm Token", "np" + "m_" + MIXED[:20], "//npm.local/:_auth" + "Token="),
    SecretExample("OpenAI Token", "s" + "k-" + MIXED[:20] + "T3Blbk" + "FJ" + MIXED[:20]),
    SecretExample("OpenAI Token", "s" + "k-proj-" + MIXED[:70] + "-x_" + "T3Blbk" + "FJ" + MIXED[:70] + "-_A"),
    SecretExample("OpenRouter API Key", "s" + "k-or-v1-" + HEX[:64]),
    *(
        SecretExample("Private Key", key_block(f"{kind}PRIVATE " + "KEY"))
        for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "SSH2 ENCRYPTED ")
    ),
    SecretExample("Private Key", key_block("PGP PRIVATE " + "KEY BLOCK")),
    SecretExample("Private Key", key_block("RSA PRIVATE " + "KEY").replace("\n", "\\n"), 'key: "', '"'),
    SecretExample(
        "Private Key",
        "PuTTY-User" + "-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n" + MIXED[:64] + "\nPrivate-MAC: " + HEX[:40],
    ),
    SecretExample("PyPI Token", "pypi-" + "AgEIcHlwaS5vcmc" + MIXED[:80]),
    SecretExample("PyPI Token", "pypi-" + "AgENdGVzdC5weXBpLm9yZw" + MIXED[:80]),
    SecretExample("SendGrid API Key", "S" + "G." + MIXED[:22] + "." + MIXED[:43]),
    SecretExample("Slack Token", "xox" + "b-123456789012-1234567890123-" + MIXED[:24]),
    SecretExample("Slack Webhook", "https://hooks." + "slack.com/services/T0A1B2C3/B0A1B2C3/" + MIXED[:24]),
    SecretExample("SoftLayer Credentials", HEX[:64], "softlayer_api" + "_key = ", ";"),
    SecretExample("SoftLayer Credentials", HEX[:64], "https://api.softlayer" + ".com/soap/v3.1/"),
    SecretExample("Square OAuth Secret", "sq0" + "csp-" + MIXED[:43]),
    # As long as they are today: detect-secrets knows the first 24 characters.
    SecretExample("Stripe Access Key", "sk_" + "live_51" + MIXED[:97]),
    SecretExample("Telegram Bot Token", "123456" + "7890:" + MIXED[:35]),
    SecretExample("Twilio API Key", "A" + "C" + HEX[:32]),
    SecretExample("Twilio API Key", "S" + "K" + HEX[:32]),
]
GITHUB = next(example for example in EXAMPLES if example.name == "GitHub Token")
STRIPE = next(example for example in EXAMPLES if example.name == "Stripe Access Key")
