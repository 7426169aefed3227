"""A secret of every format within a text, assembled here, so that no scanner finds one in this file."""

from __future__ import annotations

import base64
import json
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

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


# Format, prefix in two parts, and what follows it: characters of which kind, and how many.
PREFIXED = """
1Password Token | ops _eyJ | mixed 120
1Password Secret Key | A 3-AB12CD- | upper 30
AWS Access Key | AS IA | upper 16
AWS Bedrock Key | AB SK | mixed 104
AWS Bedrock Key | bedrock-api -key- | mixed 104
Age Secret Key | AGE-SECRET -KEY-1 | upper 58
Airtable Token | pa tAb1Cd2Ef3Gh4Ij. | hex 64
Aiven Password | AVN S_ | mixed 19
Alibaba Access Key | LT AI | mixed 20
Apify Token | apify _api_ | mixed 36
Artifactory Credentials | cmVm dGtu | mixed 56
Asana Token | 1 /1201234567890123: | hex 32
Atlassian Token | ATA TT3 | mixed 180
Atlassian Token | AT BB | mixed 32
Azure Client Secret | aB~8 Q~ | mixed 34
Azure Key | a0Zb1Yc2Xd3We4Vf5Ug6Th7Si8Rj9Qk0Pl1Om2Nn3Mo4Lp5Kq6JrJQQ J99 | mixed 27
Brevo API Key | xkey sib- | hex 64
Buildkite Token | bk ua_ | hex 40
Cerebras API Key | cs k- | mixed 48
CircleCI Token | CCIP AT_AbC1_ | hex 40
Clojars Token | CLO JARS_ | hex 60
Cloudflare Origin Key | v1. 0-0a1b2c3d4e5f60718293a4b5- | hex2 146
Contentful Token | CF PAT- | mixed 43
crates.io Token | ci o | mixed 32
Databricks Token | da pi | hex 32
Datadog Token | dd p_ | mixed 34
DigitalOcean Token | dop _v1_ | hex 64
Discord Bot Token | mf a. | mixed 84
Discord Webhook | https://discord .com/api/webhooks/123456789012345678/ | mixed 68
Docker Token | dckr _pat_ | mixed 27
Doppler Token | dp. pt. | mixed 43
Doppler Token | dp. st.prd. | mixed 43
Dropbox Token | s l.u. | mixed 130
Duffel Token | duffel _live_ | mixed 43
Dynatrace Token | dt0 c01.ABCDEFGHIJKLMNOPQRSTUVWX. | upper 64
E2B API Key | e2 b_ | hex 40
EasyPost Token | EZ AK | mixed 54
ElevenLabs API Key | s k_ | hex 48
Facebook Token | EA A | mixed 120
Figma Token | fi gd_ | mixed 40
Firecrawl API Key | f c- | hex 32
Fireworks API Key | f w_ | mixed 24
Flutterwave Secret Key | FLW SECK_TEST- | hex 32
Fly.io Token | fm 2_ | mixed 120
GitLab Token | gl rt-t1_ | mixed 20
GitHub Token | gh r_ | mixed 76
Google API Key | AQ .Ab | mixed 48
Google OAuth Secret | GOC SPX- | mixed 28
Google OAuth Token | 1/ /0 | mixed 60
Google OAuth Token | ya2 9. | mixed 120
Grafana Token | gl sa_ | mixed 41
Grafana Token | gl c_eyJ | mixed 120
Groq API Key | gs k_ | mixed 52
Heroku API Key | HRKU- AA | mixed 58
HubSpot Token | pat- na1- | uuid 36
Hugging Face Token | h f_ | mixed 34
Hugging Face Token | api _org_ | mixed 34
Jina API Key | ji na_ | mixed 60
Langfuse Secret Key | sk-l f- | uuid 36
LangSmith API Key | lsv2 _pt_ | hex 43
LangSmith API Key | lsv2 _sk_ | hex 43
Linear Token | lin _api_ | mixed 40
Mailgun API Key | ke y- | hex 32
Mailgun API Key | 0a1b2c3d4e5f60718293a4b5c6d7e8f9 -0a1b2c3d- | hex 8
Mandrill API Key | m d- | mixed 22
Mapbox Token | sk. eyJ | mixed 90
MongoDB Atlas Secret | mdb_sa _sk_ | mixed 40
Neon API Key | nap i_ | lower 64
Netlify Token | nf p_ | mixed 36
New Relic Key | NR AK- | upper 27
Notion Token | nt n_ | mixed 46
Notion Token | secr et_ | mixed 43
NuGet API Key | oy 2 | lower 43
NVIDIA API Key | nv api- | mixed 64
OpenAI Token | sk -proj- | mixed 48
OpenAI Token | s k- | mixed 48
OpenAI Token | sk -svcacct- | mixed 48
OpenAI Token | sk -my-service- | openai 60
Packagist Token | packagist _ort_ | hex 64
PayPal Token | access_token $production$0a1b2c3d4e5f6071$ | hex 32
Perplexity API Key | pp lx- | mixed 48
Pinecone API Key | pcs k_ | mixed 70
Plaid Token | access- production- | uuid 36
PlanetScale Token | pscale _tkn_ | mixed 43
PlanetScale Token | pscale _oauth_ | mixed 43
Polar Token | polar _oat_ | mixed 43
PostHog API Key | ph x_ | mixed 43
Postman API Key | PM AK-0a1b2c3d4e5f60718293a4b5- | hex 34
Prefect API Key | pn u_ | mixed 36
Pulumi Token | pu l- | hex 40
PyPI Token | py pi- | mixed 160
ReadMe API Key | rd me_ | lower 70
Render API Key | rn d_ | mixed 28
Replicate Token | r 8_ | mixed 37
Resend API Key | r e_Ab1Cd2Ef_ | mixed 24
RubyGems Token | ruby gems_ | hex 48
RunPod API Key | rp a_ | mixed 46
Sentry Token | sntr ys_ | mixed 120
Sentry Token | sntr yu_ | hex 64
Shippo Token | shippo _live_ | hex 40
Shopify Token | shp at_ | hex 32
Shopify Token | shp ss_ | hex 32
Slack Token | xap p-1-A0B1C2D3E4F-1234567890123- | hex 64
SonarQube Token | sq u_ | hex 40
Sourcegraph Token | sg p_0a1b2c3d4e5f6071_ | hex 40
Square OAuth Secret | sq0 atp- | mixed 22
Square OAuth Secret | EA AA | mixed 60
Stripe Access Key | rk_ test_ | mixed 24
Stripe Webhook Secret | whs ec_ | mixed 32
Supabase Token | sb p_ | hex 40
Supabase Token | sb_ secret_ | mixed 31
Tailscale Key | tsk ey-auth-Ab1Cd2Ef3CNTRL- | mixed 32
Tavily API Key | tvl y-dev- | mixed 32
Tencent Access Key | AK ID | mixed 32
Terraform Token | Ab1Cd2Ef3Gh4Ij .atlasv1. | mixed 67
Together API Key | tgp _v1_ | mixed 43
Typeform Token | tf p_ | mixed 44
Vault Token | hv s. | mixed 95
Vault Token | hv b. | mixed 95
Vercel Token | vc p_ | mixed 56
Vercel Token | vc a_ | mixed 56
WakaTime Token | wak a_ | uuid 36
Weights & Biases Key | wandb _v1_ | mixed 80
xAI API Key | xa i- | mixed 80
Yandex API Key | AQ VN | mixed 36
"""
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
    """Return the example of a line of the table."""
    name, prefix, kind = (field.strip() for field in line.split("|"))
    kind, length = kind.split()
    return Example(name, prefix.replace(" ", "") + KINDS[kind][: int(length)])


EXAMPLES = [
    *map(read_prefixed, PREFIXED.strip().splitlines()),
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
