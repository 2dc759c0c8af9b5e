"""Decides by the names of inputs and variables whether their values are secrets.

A name is read word by word (``HF_TOKEN``, ``storageKey``, ``blob-sas-url``), so that ``author``, ``monkey``
and ``tokenizer`` are not secrets. ``key``, ``token`` and ``pass`` have other meanings in training scripts,
and the words beside them decide: ``sort_key``, ``pad_token``, ``KEY_COLUMN``.
"""

from __future__ import annotations

import re
from functools import cache

from worldsize.base.patterns import compile_later

# A text without any of these holds no such name.
_HINTS = (
    "key", "token", "secret", "pass", "pw", "cred", "conn", "sas", "auth", "cookie", "pat", "jwt", "bearer",
    "dsn", "webhook",
)  # fmt: skip
_HINT = compile_later("|".join(_HINTS), re.IGNORECASE)
_WORD = compile_later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORKING_FOLDERS = frozenset({"PWD", "OLDPWD"})  # POSIX
_PRESET = compile_later(r"^AZUREML_(?:PARAMETER|SWEEP)_")


def words(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


_ALWAYS = words("""
    secret secrets password passwords passwd passphrase passphrases passcode credential credentials
    creds pwd sas apikey apikeys accesskey accountkey secretkey privatekey storagekey
    subscriptionkey signingkey encryptionkey accesstoken apitoken authtoken bearertoken refreshtoken
    sastoken sasurl sasuri connectionstring connstring connstr clientsecret authorization cookie
    cookies jwt bearer sshpass
""")
_PASSWORDS = frozenset({"secrets", "passwords", "passphrases", "pwd", "pass"})
_ENDINGS = ("password", "passwd", "passphrase", "secret", "passcode")  # PGPASSWORD, MYCLIENTSECRET
# Secret as the last word, unless the word before says otherwise.
_LAST = frozenset({"key", "keys", "token", "pass", "pw", "pat", "auth", "cred", "dsn", "webhook"})
_PAIRS = frozenset({("connection", "string"), ("connection", "strings"), ("conn", "string"), ("conn", "str")})
# Words that do not change the meaning of the name.
_NEUTRAL = words("""
    value val string str text base64 b64 env var raw plain plaintext prod production dev staging
    test old new current previous primary secondary default read write ro rw admin header headers
""")
# With one of these last, the name describes a secret: its value is not one.
_ABOUT = words("""
    file files filename path paths dir directory folder name names type types kind id ids count
    counts num number length len size sizes limit min max minimum maximum column columns col cols
    field fields index indices idx expiry expires expiration ttl age days hours minutes seconds
    timeout vault scope scopes provider endpoint host hostname port version algorithm algo policy
    format mode method enabled disabled required optional pattern regex prefix suffix url uri urls
    user username usernames owner email account region manager rotation rotate reset strength hint
    label labels title description class alias status store stores backend source domain level schema table
    separator mask masked home root bin ref reference
""")
# After a bare `key` or `token` these mean data: the text of a token, the value beside a key.
_OF_DATA = words("""
    value val string str text default new old current previous test
""")
_ADDRESSES = frozenset({"url", "uri", "urls"})  # the address of a SAS or webhook contains the secret
_COUNTS = words("""
    num n no has have is use uses using with without need needs require requires required allow
    enable enabled disable skip ignore max min per count show hide check validate verify force
    generate forgot reset
""")
_OTHER_KEYS = words("""
    primary secondary foreign sort sorting sorted partition row rows column columns col join index
    group groupby merge lookup dict map hash range natural surrogate composite compound unique
    candidate public query metric metrics label labels feature features image images img text data
    input inputs output outputs target cache config state record item object obj json yaml field
    table order ordering reduce message routing file sample batch id uid time timestamp date event
    answer music num n max min no any each by last first next prev previous left right up down enter
    hot short arrow translation idempotency dedup deduplication shard sharding distribution cluster
    clustering segment product entity attention context monitor loss prediction embedding sequence
    class category tag tree attribute param parameter argument kwarg kwargs model checkpoint ckpt
    weight weights dataset split train val validation eval test score best tokenizer vocabulary
    sentence question document doc page topic path title name value prompt completion response
    chosen rejected summary abstract highlights article passage context contexts premise hypothesis
    ner pos tags audio video caption mask key nested parent child root top sub main common shared
    same other extra special special match matching filter search grouping user customer s major
    minor step epoch rank layer block head module return
""")
_OTHER_TOKENS = words("""
    pad padding eos bos unk unknown mask sep cls class special image img audio video end stop start
    begin num n max min per next first last prev previous added extra prefix suffix target source
    query label distill distillation sub time total input output prompt image space blank decoder
    encoder separator modality speaker language lang forced think role eot eod fim control sentinel
    placeholder register vision visual patch text word char byte each by every single one cached new
    generated lowercase
""")
_OTHER_PASSES = words("""
    first second third forward backward fwd bwd one two three single multi num n max min low high
    band all by per each final last next prev train training eval inference test quality must should
    will did is has any data render warm warmup optimizer compiler graph this pre post sort boarding
    fast slow dry
""")
_OTHER_PATTERNS = words("""
    include exclude glob file files regex re name path match search ignore filename url date
""")
_OTHERS = {
    "key": _OTHER_KEYS,
    "keys": _OTHER_KEYS,
    "token": _OTHER_TOKENS,
    "pass": _OTHER_PASSES,
    "pw": frozenset[str](),
    "pat": _OTHER_PATTERNS,
    "auth": frozenset({"o"}),
    "cred": frozenset[str](),
    "dsn": frozenset[str](),
    "webhook": frozenset[str](),
}
# Before `primary_key` these mean the key of an account, not of a table.
_SERVICES = words("""
    azure account storage cosmos cosmosdb cognitive subscription speech openai api access iot
    eventhub servicebus apim maps translator function functions
""")


def may_name_secrets(text: str) -> bool:
    """Whether a text can contain the name of a secret at all: a quick test of a whole file."""
    folded = text.casefold()
    return any(hint in folded for hint in _HINTS)


def find_lines_with_hints(text: str) -> list[tuple[int, int]]:
    """The lines that can contain such a name: start and end of each, in order."""
    folded = text.casefold()
    if len(folded) != len(text):  # a letter became two
        return [(0, len(text))]
    lines: set[tuple[int, int]] = set()
    for hint in _HINTS:
        at = folded.find(hint)
        while at >= 0:
            start, end = folded.rfind("\n", 0, at) + 1, folded.find("\n", at) + 1 or len(text)
            lines.add((start, end))
            at = folded.find(hint, end)
    return sorted(lines)


@cache
def is_secret(name: str) -> bool:
    """Whether the value of an input or variable of this name is a secret.

    A member of a group counts by its own name and by its group's: ``service.key``, ``credentials.value``.
    """
    if _HINT.search(name) is None or name in _WORKING_FOLDERS:
        return False
    name = _PRESET.sub("", name)
    return _says_secret(name) or ("." in name and _says_secret(name.rpartition(".")[2]))


@cache
def is_password(name: str) -> bool:
    """Whether the name contains an unambiguous word such as password or secret."""
    parts = [word.lower() for word in _WORD.findall(name)]
    return is_secret(name) and any(word.endswith(_ENDINGS) or word in _PASSWORDS for word in parts)


def _says_secret(name: str) -> bool:
    parts = [word.lower() for word in _WORD.findall(name) if not word.isdigit()]
    if tuple(parts[-2:]) in _PAIRS or (tuple(parts[-3:-1]) in _PAIRS and parts[-1] in _NEUTRAL):
        return parts[0] not in _COUNTS
    added = ""
    while len(parts) > 1 and parts[-1] in _NEUTRAL:
        added = parts.pop()
    if not parts:
        return False
    if parts[-1] in _ABOUT or (parts[0] in _COUNTS and len(parts) > 1):
        return parts[-1] in _ABOUT and _holds_secret(parts)
    if any(word in _ALWAYS or word.endswith(_ENDINGS) for word in parts):
        return True
    if parts in (["key"], ["token"]) and added in _OF_DATA:
        return False
    return parts[-1] in _LAST and _last_word_is_secret(parts)


def _holds_secret(parts: list[str]) -> bool:
    """Whether a name that ends like a property holds a secret: some addresses and ids do."""
    if parts[-1] in _ADDRESSES:
        return bool({"sas", "webhook"} & set(parts))
    return parts[-3:] == ["access", "key", "id"] or parts[-2:] == ["secret", "id"]


def _last_word_is_secret(parts: list[str]) -> bool:
    """Whether a last word such as `key` or `token` means a secret."""
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if before not in _OTHERS[last]:
        return last != "keys" or before in {"api", "access", "account", "secret", "private", "storage"}
    return last == "key" and bool(_SERVICES & set(parts[:-1]))
