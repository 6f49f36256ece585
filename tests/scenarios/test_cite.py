"""BibTeX of methods: every reference of a part resolves, entries are whole, and facts stand once."""

import re
from collections import Counter
from functools import cache
from importlib import resources

from conftest import ROOT
from pytest import mark
from ruamel.yaml import YAML

from scenarios.app.results.cite import cite
from scenarios.app.study.load import list_bundled, load
from scenarios.app.study.slots import SLOTS

BIB = resources.files("scenarios").joinpath("references.bib").read_text("utf-8")
PARTS = {(slot, kind): part for slot, union in SLOTS.items() for kind, part in union.parts.items()}


@cache
def list_papers():
    """Papers of the bundled scenarios; read for tests alone, since each process collects them
    all."""
    documents = (
        YAML(typ="safe").load(path.read_text(encoding="utf-8")) for path in list_bundled().values()
    )
    return [paper for document in documents if (paper := document.get("paper"))]


def parse_bibtex(text):
    """Key -> fields, of entries outside of which @ stands nowhere; braces must be balanced."""
    entries = {}
    while match := re.search(r"@(\w+)\{(\w+),", text):
        assert "@" not in text[: match.start()]
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        assert match[2] not in entries
        inner = text[match.end() : end - 1]
        fields = re.findall(r"(?m)^  (\w+) = \{(.*)\},$", inner)
        assert len(fields) == len(dict(fields)) == inner.strip().count("\n") + 1
        entries[match[2]] = dict(fields)
        text = text[end:]
    assert "@" not in text
    return entries


ENTRIES = parse_bibtex(BIB)


def find_cited(reference):
    return {
        key
        for key, entry in ENTRIES.items()
        for word in entry.get("cited", "no word").lower().split("; ")
        if word in reference.lower()
    }


def test_entries_are_whole_and_words_name_one_of_them():
    for entry in ENTRIES.values():
        assert {"title", "author"} <= set(entry)
        assert all(value.count("{") == value.count("}") for value in entry.values())
    words = Counter(word for e in ENTRIES.values() for word in e.get("cited", "").split("; "))
    assert max(words.values()) == 1


@mark.parametrize("slot, kind", PARTS)
def test_a_reference_resolves_or_is_of_the_project(slot, kind):
    reference = PARTS[slot, kind].reference
    assert bool(find_cited(reference)) != reference.startswith("netsim: ")


def test_papers_of_scenarios_resolve_and_no_entry_is_idle():
    papers = list_papers()
    assert [paper for paper in papers if not find_cited(paper)] == []
    texts = [*papers, *(part.reference for part in PARTS.values())]
    assert set(ENTRIES) == {"netsim"}.union(*map(find_cited, texts))


def test_facts_are_those_of_the_manual_and_of_the_citation_of_the_software():
    rows = (ROOT / "docs/reference/references.md").read_text(encoding="utf-8").lower().split("\n")
    compared = 0
    for entry in ENTRIES.values():
        listed = [row for row in rows if f"*{entry['title'].strip('{}').lower()}" in row]
        for row in listed:
            ids = [entry[name].lower() for name in ("doi", "eprint") if name in entry]
            assert all(name in row for name in ids)
            assert bool(ids) == ("](https://" in row)
            assert re.split(r"[,{}]", entry["author"].strip("{"))[0].lower() in row
        compared += len(listed)
    assert compared >= 60
    cited = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text())
    own = ENTRIES["netsim"]
    assert own["title"] == f"{{{cited['title']}}}"
    assert own["author"] == f"{{{cited['authors'][0]['name']}}}"
    assert own["note"] == f"Version {cited['version']}"
    assert own["year"] == str(cited["date-released"].year)


def list_kinds(value):
    """The kinds of all parts in plain data."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = {value["kind"]} if isinstance(value, dict) and "kind" in value else set()
    return own.union(*map(list_kinds, inner))


@mark.parametrize("name", ["city", "tracking/city", "lapa/mnist", "power/pedestrians"])
def test_all_parts_of_a_scenario_are_named_and_their_publications_printed(name):
    text = cite(name)
    comments = re.findall(r"(?m)^% (\S+)(?: \([a-z-]+\))?: (.*)", text)
    assert {kind for kind, _ in comments} - {"paper"} == list_kinds(
        load(name).model_dump(mode="json", exclude={"vary"})
    )
    expected = {"netsim"}.union(*(find_cited(words) for _, words in comments))
    printed = parse_bibtex(text)
    assert set(printed) == expected
    assert not any("cited" in entry for entry in printed.values())
    assert ": no entry" not in text


def test_a_folder_is_cited_as_its_study(tiny_run, play_tiny, out, run_command):
    assert run_command(["cite", tiny_run]) == cite(str(tiny_run / "study.yaml"))
    play_tiny({"paper": "me@home, Communication-Efficient Learning of Deep Networks"})
    assert "mcmahan2017" in parse_bibtex(cite(str(out)))


def test_what_has_no_entry_asks_for_one_and_parts_name_their_slot(play_tiny, out):
    play_tiny({"paper": "this paper"})
    lines = cite(str(out)).splitlines()
    (asked,) = [line for line in lines if ": no entry; give a reference" in line]
    assert asked.startswith("% paper: this paper: ")
    assert "% none (fading): netsim: path loss and shadowing alone" in lines


def test_what_has_no_study_is_refused(tmp_path, refuse_command):
    assert "no scenario file and no bundled scenario" in refuse_command(["cite", tmp_path])
