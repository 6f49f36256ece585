"""One case: the files of a folder and a command line, drawn from a seed and a number; nothing else
decides it."""

from dataclasses import dataclass, field
from random import Random

from mutations import (
    ODD_NUMBERS,
    ODD_WORDS,
    bytes_changed,
    change_content,
    json_changed,
    text_changed,
    tree_saved,
    xml_changed,
    yaml_changed,
    zip_changed,
)
from valid_inputs import choose

PLAIN = (text_changed, text_changed, bytes_changed)
YAML = (json_changed, yaml_changed, bytes_changed)
JSON = (text_changed, bytes_changed, json_changed)
XML = (xml_changed, xml_changed, bytes_changed)


@dataclass(frozen=True)
class Case:
    """`files`: name -> bytes; `plays`: it may run for long, and is then interrupted."""

    family: str
    words: list[str]
    files: dict[str, bytes] = field(repr=False)
    plays: bool = False


def case(valid, seed, number, family=None):
    """The case of a number."""
    draw = Random(f"{seed}/{number}")
    names = list(FAMILIES)
    name = family or draw.choices(names, [FAMILIES[n][0] for n in names])[0]
    words, files, plays = FAMILIES[name][1](valid, draw)
    return Case(name, words, files, plays)


def _draw_one(name, ways, words, *extra, folder=""):
    """A family in which one file is changed; `folder`: one file of that folder."""

    def draw_case(valid, draw):
        files = choose(valid, *extra, *([f"{folder}/"] if folder else [name]))
        if folder:
            item = draw.choice(sorted(p for p in files if p.startswith(folder + "/")))
        else:
            item = name
        files[item] = change_content(files[item], draw, ways)
        return list(words), files, words[0] in ("run", "replay")

    return draw_case


def _set(name, ways, *values, extra="tiny.yaml", folder=""):
    """A family in which a file of the tiny study is changed that these settings name."""
    words = ["validate", "tiny.yaml", *(word for value in values for word in ("--set", value))]
    return _draw_one(name, ways, words, "tiny.yaml", extra, folder=folder)


def _scenario(words, plays):
    def draw_case(valid, draw):
        name = draw.choice(["tiny", "rich", "rich", "radio", "live", "homes", "places"]) + ".yaml"
        files = choose(valid, "homes.csv", "places.csv")
        files["mine.yaml"] = change_content(valid[name], draw, YAML)
        return list(words), files, plays

    return draw_case


def _trace(name, ways):
    def draw_case(valid, draw):
        end = ".gz" if name == "t.csv" and draw.random() < 0.1 else ""
        files = {name + end: change_content(valid[name + end], draw, ways)}
        words = ["inspect", name + end]
        if draw.random() < 0.2:
            formats = ["csv", "plt", "gpx", "sumo-fcd", "cabspotting"]
            zones = ["Europe/Berlin", "UTC", *ODD_WORDS]
            rest = [["--survey"], ["--timezone", draw.choice(zones)], ["--crs", "EPSG:25832"]]
            rest += [["--crs", draw.choice(ODD_WORDS)], ["--format", draw.choice(formats)]]
            words += draw.choice(rest)
        return words, files, False

    return draw_case


def _log(valid, draw):
    name = draw.choice(sorted(name for name in valid if name.startswith("log-")))
    ways = {"track": XML, "run": XML, "rec": PLAIN, "ride": (bytes_changed,)}
    changed = change_content(valid[name], draw, ways.get(name.removeprefix("log-"), JSON))
    return ["inspect", name], {name: changed}, False


def _replay(valid, draw):
    name, ways = draw.choice(
        [
            ("t.csv", PLAIN),
            ("m.csv", PLAIN),
            ("t.plt", PLAIN),
            ("t.gpx", (xml_changed,)),
            ("t.fcd.xml", (xml_changed,)),
        ]
    )
    brief = [
        "--set",
        "learning.attacks=[{kind: closed-form}]",
        "--set",
        "learning.learner.hidden=[8]",
        "--set",
        "learning.rounds=2",
    ]
    words = [
        "replay",
        name,
        *brief,
        "--set",
        "learning.leakage.random_baseline_draws=2",
        "--out",
        "out",
        "--quiet",
    ]
    return words, {name: change_content(valid[name], draw, ways)}, True


def _folder(valid, draw):
    folder = draw.choice(["done", "done", "half", "heard"])
    files = choose(valid, f"{folder}/")
    for _ in range(draw.choice([1, 1, 2])):
        name = draw.choice(sorted(files))
        plain = name.endswith((".csv", ".html", ".yaml", ".netsim"))
        ways = (zip_changed,) if name.endswith(".npz") else PLAIN if plain else YAML
        if draw.random() < 0.1:
            files.pop(name)
            continue
        files[name] = change_content(files[name], draw, ways)
    words = draw.choice(
        [
            ["show", folder],
            ["show", folder, "--verbose"],
            ["report", folder],
            ["compare", folder, "--out", "c.html"],
            ["export", folder],
            ["show", folder, "--json"],
        ]
    )
    return words, files, False


def _checkpoint(valid, draw):
    folder, scenario = draw.choice(
        [("half", "half.yaml"), ("half", "half.yaml"), ("heard", "heard.yaml")]
    )
    files = choose(valid, f"{folder}/", scenario)
    if draw.random() < 0.8:
        name = f"{folder}/checkpoint.npz"
    else:
        name = draw.choice(sorted(p for p in files if "/" in p))
    files[name] = (
        tree_saved(files[name], draw)
        if name.endswith(".npz") and draw.random() < 0.5
        else change_content(
            files[name], draw, (bytes_changed, zip_changed) if name.endswith(".npz") else PLAIN
        )
    )
    return ["run", scenario, "--out", folder, "--quiet"], files, True


def _policy(valid, draw):
    kind, folder = draw.choice([("ddpg", "policy"), ("shared", "shared")])
    files = choose(valid, f"{folder}/", "live.yaml")
    name = draw.choice([f"{folder}/policy.json", f"{folder}/policy.safetensors"])
    ways = (
        (json_changed, text_changed)
        if name.endswith(".json")
        else (bytes_changed, _safetensors_changed)
    )
    files[name] = change_content(files[name], draw, ways)
    return (
        ["validate", "live.yaml", "--all", "--set", f"power={{kind: {kind}, policy: {folder}}}"],
        files,
        False,
    )


def _safetensors_changed(data, draw):
    """Its header, which is JSON behind its length, changed; the length fits."""
    n = int.from_bytes(data[:8], "little")
    if not 0 < n < len(data):
        return bytes_changed(data, draw)
    if draw.random() < 0.6:
        head = json_changed(data[8 : 8 + n], draw)
    else:
        head = text_changed(data[8 : 8 + n], draw)
    return len(head).to_bytes(8, "little") + head + data[8 + n :]


def _claims(valid, draw):
    files = {
        "mine.yaml": change_content(valid["claims.yaml"], draw, YAML),
        **choose(valid, "done/"),
    }
    return ["claims", "--file", "mine.yaml"], files, False


_LINES = [
    "validate tiny.yaml --set world.duration_s=60",
    "run tiny.yaml --out out --quiet --set learning.round_s=30 --seed 4",
    "inspect t.csv --columns user=user",
    "inspect t.csv --format csv --timezone UTC",
    "show done --verbose",
    "report done --json",
    "compare done half --out c.html --reach 3",
    "export done --format geojson --out e.geojson --origin 48.1,11.5",
    "list attack",
    "list --matrix",
    "new fresh --from city",
    "epsilon --noise-multiplier 1.5 --rounds 10 --delta 1e-5 --sampling-rate 0.5",
    "schema",
    "epsilon --target-epsilon 3 --rounds 10 100 --delta 1e-5",
    "claims --paper Signal",
    "claims --page p.md",
    "run radio.yaml --out out --quiet --json",
    "sweep rich.yaml --jobs 1 --out out --quiet --set world.duration_s=60",
    "list --matrix",
    "train live.yaml --steps 40 --out out --quiet --seed 1 --set train.eval_every=20",
    "import-policy live.yaml model.zip --out p2",
    "replay t.csv --cell c0 --users id --round 2h --out out --quiet --set "
    "learning.attacks=[] --set learning.rounds=1",
    "run tiny.yaml --out done --replace",
]
_FILES = (
    "tiny.yaml",
    "radio.yaml",
    "rich.yaml",
    "live.yaml",
    "t.csv",
    "model.zip",
    "done/",
    "half/",
    "policy/",
)
_MORE = [
    "--help",
    "--version",
    "--json",
    "--open",
    "--quiet",
    "--replace",
    "--verbose",
    "--set",
    "--out",
    "--seed",
    "--jobs",
    "--",
    "-h",
    "-1",
    "--no",
]
_PATHS = [
    "world.ues.count",
    "world",
    "learning.attacks[0].kind",
    "learning.attacks[9]",
    "vary",
    "seed",
    "a..b",
    "world.radio",
    "learning",
    "[0]",
    "train.steps",
]


def _command_line(valid, draw):
    words = draw.choice(_LINES).split()
    small = [w for w in ODD_WORDS if len(w) <= 300]
    for _ in range(draw.choice([1, 1, 2, 3])):
        choice = draw.randrange(6)
        k = draw.randrange(len(words))
        if choice == 0:
            words[k] = draw.choice([*small, *ODD_NUMBERS])
        elif choice == 1 and len(words) > 1:
            del words[k]
        elif choice == 2:
            words.insert(k + 1, draw.choice([*_MORE, *small]))
        elif choice == 3:
            words[k] = draw.choice(draw.choice(_LINES).split())
        elif choice == 4:
            words += [
                "--set",
                f"{draw.choice(_PATHS)}={draw.choice([*small, *ODD_NUMBERS, '{kind: ddpg}', '[1, 2'])}",
            ]
        else:
            words[k] = text_changed(words[k].encode(), draw).decode("utf-8", "replace")[:500]
    words = [w.replace("\0", "") if draw.random() < 0.5 else w for w in words]
    return _bound(words), choose(valid, *_FILES), True


def _bound(words):
    """Without what would write outside of the folder of the case: absolute and upper paths of
    folders."""
    return [
        w.replace("..", ".").replace("=/", "=")
        if w.startswith("/dev/") or "/proc/" in w
        else w.replace("..", ".").lstrip("/")
        for w in words
    ]


FAMILIES = {
    "scenario": (2200, _scenario(["validate", "mine.yaml"], False)),
    "scenario that runs": (600, _scenario(["run", "mine.yaml", "--out", "out", "--quiet"], True)),
    "CSV": (700, _trace("t.csv", PLAIN)),
    "CSV in metres": (200, _trace("m.csv", PLAIN)),
    "PLT": (500, _trace("t.plt", PLAIN)),
    "GPX": (500, _trace("t.gpx", XML)),
    "SUMO FCD": (500, _trace("t.fcd.xml", XML)),
    "Cabspotting": (400, _trace("new_cab.txt", PLAIN)),
    "logs": (700, _log),
    "replay": (100, _replay),
    "buildings": (
        500,
        _set("houses.geojson", JSON, "world.city={kind: footprints, file: houses.geojson}"),
    ),
    "streets": (
        300,
        _set(
            "streets.geojson",
            JSON,
            "world.city={kind: footprints, file: houses.geojson, streets: streets.geojson}",
            extra="houses.geojson",
        ),
    ),
    "SUMO network": (
        300,
        _set(
            "net.net.xml",
            XML,
            "world.city={kind: footprints, file: houses.geojson, streets: net.net.xml}",
            extra="houses.geojson",
        ),
    ),
    "list of base stations": (
        300,
        _set("sites.csv", PLAIN, "world.base_stations={kind: cell-file, file: sites.csv}"),
    ),
    "gains": (
        200,
        _set("gains.csv", PLAIN, "world.radio={path_loss: {kind: map, file: gains.csv}}"),
    ),
    "arrays of gains": (
        200,
        _set("gains.npz", (zip_changed,), "world.radio={path_loss: {kind: map, file: gains.npz}}"),
    ),
    "measured": (
        200,
        _draw_one(
            "drive.csv",
            PLAIN,
            ["validate", "radio.yaml", "--set", "measured=drive.csv"],
            "radio.yaml",
        ),
    ),
    "cells": (
        400,
        _set(
            "cells.csv",
            PLAIN,
            "world.base_stations={kind: cell-file, file: cells.csv, origin_lat: 48.137, "
            "origin_lon: 11.575}",
        ),
    ),
    "IDX": (
        400,
        _set(
            "",
            (bytes_changed,),
            "learning.data={kind: images, folder: images}",
            "learning.learner={kind: torch, module: perceptron, arguments: {hidden: [8]}}",
            "learning.attacks=[]",
            folder="images",
        ),
    ),
    "homes": (300, _draw_one("homes.csv", PLAIN, ["validate", "homes.yaml"], "homes.yaml")),
    "places": (300, _draw_one("places.csv", PLAIN, ["validate", "places.yaml"], "places.yaml")),
    "policy": (400, _policy),
    "model": (
        300,
        _draw_one(
            "model.zip",
            (zip_changed,),
            ["import-policy", "live.yaml", "model.zip", "--out", "p"],
            "live.yaml",
        ),
    ),
    "statistics of a model": (
        300,
        _draw_one(
            "vecnormalize.pkl",
            (bytes_changed,),
            [
                "import-policy",
                "live.yaml",
                "model.zip",
                "--normalisation",
                "vecnormalize.pkl",
                "--out",
                "p",
            ],
            "live.yaml",
            "model.zip",
        ),
    ),
    "checkpoint": (400, _checkpoint),
    "claims": (300, _claims),
    "folder of results": (500, _folder),
    "command line": (800, _command_line),
}
"""family -> its weight, and how a case is drawn"""
