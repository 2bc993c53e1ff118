"""Verify an evidence file of Review Queue. It needs Python 3.9 and nothing else: no network, no database, no package.

    python3 verify_evidence.py FILE [--anchors ANCHORS]

It computes every digest in the file again and prints what differs. ANCHORS is an output of `manage.py anchors` that was
kept elsewhere. Without anchors, a writer of the file who computed every digest again after a change is not found.
Exit status: 0 nothing differs, 1 something differs, 2 a file cannot be read. Lines are numbered from 1.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import re
import sys
from decimal import Decimal
from json.encoder import encode_basestring
from pathlib import Path

FORMAT = "reviewqueue-evidence-1"
MASKED = "contents are not verified, because values are masked in them"
OLD = "records or policies are older than the digests that events have of them"
LEFT_OUT = "records were left out: the file says that its maker cannot read them, which is not proven"
SELECTED = "runs have only the records that the file selects for its decision"
NOT_HERE = "runs of the file of anchors are not in this file"

#: Where a value can be masked (kind of record, JSON Pointer): inside JSON of agents and people, never a whole column.
MASKABLE = re.compile(
    r"decision/answer/(input|arguments)/.+|(permit|effect)/call/arguments/.+"
    r"|interrupt/versions/[0-9]+/(shown/(proposal|facts|evidence|input_schema)|columns/as_proposed)/.+"
    r"|interrupt/parts/(/on_expiry|content/as_proposed)/.+"
    r"|effect/parts/(/(compensation|probe)|state/receipt)/.+|report/parts//body/.+",
    re.DOTALL,
)
#: Keywords of a schema whose value can be a secret.
SCHEMA_VALUES = ("default", "const", "enum", "examples")
#: The names of secrets, as in Review Queue. "key" and "code" name one alone, or after one of the last list.
SECRET = frozenset({
    "apikey", "credential", "credentials", "cvc", "cvv", "otp", "passcode", "passphrase", "passwd", "password", "passwords",
    "pin", "pwd", "secret", "secrets", "token", "totp",
})  # fmt: skip
BEFORE_SECRET = frozenset({
    "access", "api", "auth", "authentication", "authorization", "backup", "encryption", "login", "mfa", "private",
    "recovery", "secret", "security", "signing", "ssh", "time", "verification",
})  # fmt: skip


def canonical(value):
    """Return the canonical text of a JSON value: members sorted, no blanks, plain decimals without trailing zeros."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode_basestring(name)}:{canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return encode_basestring(value)
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def digest(value):
    return "rq1:" + hashlib.sha256(canonical(value).encode()).hexdigest()


def parse(raw):
    def number(text):
        value = Decimal(text)
        if not value.is_finite() or abs(value.adjusted()) > 308:
            raise ValueError("a number is too large")
        return value

    def members(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a member occurs twice")
        return dict(pairs)

    return json.loads(raw, parse_float=number, parse_constant=number, object_pairs_hook=members)


def is_secret_name(name):
    parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    if SECRET & set(parts):
        return True
    return bool(parts) and parts[-1] in ("key", "code") and (len(parts) == 1 or parts[-2] in BEFORE_SECRET)


def is_masked(line, place):
    """Return whether a JSON Pointer is one of a masked value of this line, so that the value's digest is not known."""
    names = [name.replace("~1", "/").replace("~0", "~") for name in place.split("/")[1:]]
    value = line
    try:
        for name in names:
            value = value[int(name)] if isinstance(value, list) else value[name]
    except (LookupError, ValueError, TypeError):
        return False
    if not names:
        return False
    is_of_schema = names[-1] in SCHEMA_VALUES and not {"schema", "input_schema"}.isdisjoint(names)
    can_be = MASKABLE.fullmatch(line["name"].partition(":")[0] + place) is not None
    return value == "[masked]" and can_be and (is_secret_name(names[-1]) or is_of_schema)


def printable(text):
    """Return a text without characters that control a terminal: the file can have any."""
    return ascii(text)[1:-1]


class Verifier:
    """Reads the lines in order. Its memory grows with the records of one run, not with the file."""

    def __init__(self, anchors):
        self.anchors, self.problems, self.at, self.is_ended, self.run = anchors, 0, 0, False, None
        self.about, self.unseen = {}, {run for run, _ in anchors} - {"configuration"}
        self.counts, self.notes = collections.Counter(), collections.Counter()

    def check(self, is_right, text):
        if not is_right:
            self.problems += 1
            self.report(text)

    def report(self, text):
        print(printable(f"line {self.at}: {text}"))

    def compare(self, line, pointer, value, expected, text):
        """Compare the digest of a value with the expected ones. The pointer of the value says whether it is masked."""
        if any((place + "/").startswith(pointer + "/") for place in line["masked"]):
            self.notes[MASKED] += 1
            self.report(f"{pointer} of {line['name']} is not verified: a value in it is masked")
        else:
            self.check(digest(value) in expected, text)

    def verify(self, file):
        known = hashlib.sha256()
        for raw in file:
            self.at += 1
            try:
                line = parse(raw)
                kind = line.pop("line")
                self.check(not self.is_ended, "this line is after the end of the file")
                self.check((self.at == 1) == (kind == "evidence"), "the header must be the first line, once")
                if kind == "end":
                    self.is_ended = True
                    self.check(line["lines"] == self.at - 1, f"the file must have {line['lines']} lines before its end")
                    self.check(line["sha256"] == known.hexdigest(), "the file differs from its own digest")
                    self.check(self.run is None, "the end of the last run is missing")
                    is_there = "run" not in self.about or self.counts["runs"]
                    self.check(is_there, "the run that the file is about is missing")
                else:
                    getattr(self, f"read_{kind}")(line)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                self.check(False, f"this line is not valid ({type(error).__name__}: {error})")
            known.update(raw)
        self.check(self.is_ended, "the end is missing: the file was cut off")
        if "run" not in self.about:
            self.notes[NOT_HERE] += len(self.unseen)

    def read_evidence(self, line):
        self.check(line["format"] == FORMAT, f"the format must be {FORMAT}")
        self.about = dict(line["about"])

    def read_run(self, line):
        self.check(self.run is None, "the end of the run before is missing")
        self.run, self.seq, self.prev, self.present, self.is_old = line, 0, "", set(), False
        self.last, self.ever, self.actors = {}, collections.defaultdict(set), {}
        self.named_policies, self.policies, self.shown = {}, {}, {}
        self.requests, self.requests_of = {}, {}
        self.unseen.discard(line["run"])
        self.check(self.about.get("run", line["run"]) == line["run"], "the file is about another run")
        decision = self.about.get("decision")
        if decision is not None or "selected" in line:
            text = "only the file of a decision can select records, and it must select this decision"
            self.check(f"decision:{decision}" in line.get("selected", []), text)
            self.notes[SELECTED] += 1
        for name in line.get("left_out", []):
            self.report(f"{name} was left out")
            self.notes[LEFT_OUT] += 1
        self.counts["runs"] += 1

    def read_event(self, line):
        found, seq = line.pop("digest"), line["seq"]
        self.check(seq == self.seq + 1, f"event {seq} follows event {self.seq}")
        self.check(line["prev"] == self.prev, f"event {seq} does not have the digest of the event before")
        self.check(digest(line) == found, f"event {seq} was changed")
        anchor = self.anchors.get((self.run["run"], seq), found)
        self.check(anchor == found, f"event {seq} is not the one of the anchor")
        self.seq, self.prev, self.is_old = seq, found, self.is_old or "row_digests" not in line
        for name, value in line.get("row_digests", {}).items():
            self.last[name] = value
            self.ever[name].add(value)
            self.actors.setdefault(name, line["actor"])
        self.named_policies.update(zip(line["refs"].get("interrupts", []), line["refs"].get("policies", [])))
        if {"decision", "interrupt"} <= set(line["refs"]):
            self.requests.setdefault(f"decision:{line['refs']['decision']}", line["refs"]["interrupt"])
        self.counts["events"] += 1

    def read_policy(self, line):
        content = line["record"]["content"]
        self.check(digest(line["record"]) == line["digest"], "the policy was changed")
        is_named = (line["reason"], line["version"]) == (content["reason"], content["version"])
        self.check(is_named, "the reason or version of the policy differs from its record")
        anchor = self.anchors.get(("configuration", line["record"]["seq"]), line["digest"])
        self.check(anchor == line["digest"], "the policy is not the one of the anchor")
        self.policies[line["record"]["subject"]] = digest(content)

    def read_standing_rule(self, line):
        content = line["record"]["content"]
        self.check(digest(line["record"]) == line["digest"], "the standing rule was changed")
        self.check(line["rule"] == content["public_id"], "the id of the standing rule differs from its record")
        anchor = self.anchors.get(("configuration", line["record"]["seq"]), line["digest"])
        self.check(anchor == line["digest"], "the standing rule is not the one of the anchor")

    def read_record(self, line):
        name = line["name"]
        self.check(name not in self.present, f"{name} is in the file twice")
        self.present.add(name)
        for place in line["masked"]:
            self.check(is_masked(line, place), f"{place} of {name} cannot be masked")
        line["masked"] = [place for place in line["masked"] if is_masked(line, place)]
        for part, columns in line["parts"].items():
            whole = f"{name}.{part}" if part else name
            if whole in self.last:
                self.compare(line, f"/parts/{part}", columns, {self.last[whole]}, f"{whole} was changed")
            elif self.is_old:
                self.notes[OLD] += 1
            else:
                self.check(False, f"{whole} was inserted: no event recorded it")
        kind = name.partition(":")[0]
        if kind in ("interrupt", "decision", "permit", "effect"):
            getattr(self, f"read_{kind}")(line, line["parts"][""])
        if kind in ("decision", "attachment"):
            known = self.requests_of.setdefault(line["parts"][""]["interrupt_id"], line["interrupt"])
            is_known = {known, self.requests.get(name, known)} == {line["interrupt"]}
            self.check(is_known, f"the request of {name} was changed")
        self.counts["records"] += 1

    def read_interrupt(self, line, columns):
        name, ident = line["name"], columns["public_id"]
        self.shown[ident] = {version["columns"]["content_digest"] for version in line["versions"]}
        self.check(line["versions"][-1]["columns"] == line["parts"]["content"], f"{name} shows another version")
        for place, version in enumerate(line["versions"]):
            at, own = f"/versions/{place}", version["columns"]
            text = f"what version {version['state_version']} of {name} shows was changed"
            self.compare(line, f"{at}/shown", version["shown"], {own["content_digest"]}, text)
            if not self.is_old:
                self.compare(line, f"{at}/columns", own, self.ever[f"{name}.content"], text)
        if ident in self.named_policies:
            is_named = self.named_policies[ident] == self.policies.get(columns["policy_id"])
            self.check(is_named, f"the policy of {name} is missing or was changed")
        else:
            self.notes[OLD] += 1

    def read_decision(self, line, columns):
        name, actor = line["name"], self.actors.get(line["name"], "")
        self.compare(line, "/answer", line["answer"], {columns["digest"]}, f"the answer of {name} was changed")
        self.check(line["answer"]["verdict"] == columns["verdict"], f"the verdict of {name} was changed")
        is_known = line["by"] == actor.removeprefix("person:") if actor.startswith("person:") else True
        is_person = (line["by"] is None) == (columns["by_id"] is None)
        self.check(is_person and (is_known or line["by"] is None), f"the person of {name} was changed")
        text = f"what {name} was about is not in the file"
        self.check(columns["content_digest"] in self.shown.get(line["interrupt"], ()), text)

    def read_permit(self, line, columns):
        self.compare(line, "/call", line["call"], {columns["digest"]}, f"the call of {line['name']} was changed")

    def read_effect(self, line, columns):
        self.compare(line, "/call", line["call"], {columns["call_digest"]}, f"the call of {line['name']} was changed")

    def read_anchor(self, line):
        if line["run"] == "configuration":
            return
        self.check(line["run"] == self.run["run"], "the anchor is of another run")
        self.check((line["seq"], line["head"]) == (self.seq, self.prev), "the chain of events ends elsewhere")
        newest = max((seq for run, seq in self.anchors if run == line["run"]), default=0)
        self.check(newest <= self.seq, f"event {newest} of the anchor is missing")
        if self.anchors and not newest:
            self.notes["runs have no anchor in the file of anchors"] += 1
        recorded = {name.partition(".")[0] for name in self.last} - set(self.run.get("left_out", []))
        expected = set(self.run["selected"]) if "selected" in self.run else recorded
        for name in sorted(expected - self.present):
            self.check(False, f"{name} is missing")
        self.run = None


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Verify an evidence file of Review Queue.")
    parser.add_argument("file")
    parser.add_argument("--anchors", help="an output of `manage.py anchors` that was kept elsewhere")
    asked = parser.parse_args(arguments)
    anchors = {}
    try:
        if asked.anchors:
            with Path(asked.anchors).open("rb") as lines:
                anchors = {(kept["run"], kept["seq"]): kept["head"] for kept in map(parse, lines)}
        with Path(asked.file).open("rb") as file:
            verifier = Verifier(anchors)
            verifier.verify(file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"A file cannot be read: {printable(str(error))}", file=sys.stderr)
        return 2
    for text, count in verifier.notes.items():
        print(f"note: {count} {text}") if count else None
    counted = ", ".join(f"{count} {name}" for name, count in verifier.counts.items())
    print(f"{counted or 'nothing'}; {verifier.problems} differences" + ("" if anchors else "; no anchors were given"))
    return 1 if verifier.problems else 0


if __name__ == "__main__":
    sys.exit(main())
