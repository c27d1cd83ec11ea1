"""The verdict of a gate as SARIF 2.1.0 and as JUnit XML. [pure]

SARIF: OASIS, "Static Analysis Results Interchange Format", 2.1.0; JUnit as its readers take it (the
schema of the Jenkins plug-in).
"""

from __future__ import annotations

import re
from urllib.parse import quote
from xml.etree import ElementTree

from specify_cli import VERSION
from specify_cli.features.gate.findings import KINDS, GateFinding
from specify_cli.features.gate.judging import Judged
from specify_cli.features.gate.rules import Rules

Json = dict[str, object]
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"fail": "error", "warn": "warning"}
# XML 1.0, section 2.2: what no document may hold.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def make_sarif(judged: Judged) -> Json:
    """Return the findings as one SARIF run; those that somebody answers for are suppressed."""
    codes = sorted({item.code for item in judged.findings})
    kinds = ((code, KINDS[code]) for code in codes)
    rules = [
        {"id": code, "shortDescription": {"text": kind.meaning}, "help": {"text": kind.next}}
        for code, kind in kinds
    ]
    driver = {"name": "spec-kitty gate", "semanticVersion": VERSION, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "results": [_make_result(item, codes) for item in judged.findings],
        "properties": {"verdict": judged.verdict, "claims": judged.claims},
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _make_result(item: GateFinding, codes: list[str]) -> Json:
    result: Json = {
        "ruleId": item.code,
        "ruleIndex": codes.index(item.code),
        "level": _LEVELS[item.level],
        "message": {"text": f"{item.message} ({item.next})"},
        "locations": [_make_location(item)],
    }
    if item.waived_by is not None:
        text = f"waived by {item.waived_by}"
        result["suppressions"] = [{"kind": "external", "justification": text}]
    return result


def _make_location(item: GateFinding) -> Json:
    if item.path is None:
        return {"logicalLocations": [{"fullyQualifiedName": item.place}]}
    address = quote(item.path.encode("utf-8", "surrogateescape"))
    place: Json = {"artifactLocation": {"uri": address}}
    if item.first is not None:
        place["region"] = {"startLine": item.first, "endLine": item.last or item.first}
    return {"physicalLocation": place}


def make_junit(judged: Judged) -> str:
    """Return one test case for each rule; what fails is a failure, warnings stand in its output."""
    suite = ElementTree.Element("testsuite", {"name": "spec-kitty gate"})
    failures = 0
    names = [name for name in Rules.model_fields if name != "custom"]
    names += sorted({item.rule for item in judged.findings} - set(names))
    for name in names:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "gate", "name": name})
        findings = [item for item in judged.findings if item.rule == name and not item.waived_by]
        failed = [item for item in findings if item.level == "fail"]
        if failed:
            failures += 1
            first = {"message": _spell(failed[0].message), "type": failed[0].code}
            ElementTree.SubElement(case, "failure", first).text = _list(failed)
        warned = [item for item in findings if item.level == "warn"]
        if warned:
            ElementTree.SubElement(case, "system-out").text = _list(warned)
    suite.attrib |= {"tests": str(len(names)), "failures": str(failures), "errors": "0"}
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _list(items: list[GateFinding]) -> str:
    return _spell("\n".join(f"{item.code} {item.place}: {item.message}" for item in items))


def _spell(text: str) -> str:
    return _NO_XML.sub("�", text)
