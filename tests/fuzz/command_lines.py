"""Command lines with words changed, lost, put in and taken from others."""

from mutations import text_changed
from odd import ODD_NUMBERS, ODD_WORDS
from valid_inputs import chosen

_LINES = [
    "validate tiny.yaml --set world.duration_s=60",
    "run tiny.yaml --out out --quiet --set learning.round_s=30 --seed 4", "inspect t.csv --columns user=user",
    "inspect tiny.yaml --mobility --cell-m 100 --fill-h 3", "show done --verbose", "report done --json",
    "compare done half --out c.html --reach 3", "export done --format geojson --out e.geojson --origin 48.1,11.5",
    "list attack", "list --matrix", "new fresh --from city",
    "epsilon --noise-multiplier 1.5 --rounds 10 --delta 1e-5 --sampling-rate 0.5", "schema",
    "epsilon --target-epsilon 3 --rounds 10 100 --delta 1e-5", "claims --paper Signal --minutes 3",
    "claims --run tiny=done --page p.html", "run radio.yaml --out out --quiet --json",
    "sweep rich.yaml --jobs 1 --out out --quiet --set world.duration_s=60", "list --matrix",
    "train live.yaml --steps 40 --out out --quiet --seed 1 --set train.eval_every=20",
    "import-policy live.yaml model.zip --out p2",
    "replay t.csv --cell c0 --users id --round 2h --out out --quiet --set learning.attacks=[] --set learning.rounds=1",
    "run tiny.yaml --out done --replace",
]  # fmt: skip
_FILES = ("tiny.yaml", "radio.yaml", "rich.yaml", "live.yaml", "t.csv", "model.zip", "done/", "half/", "policy/")
_MORE = [
    "--help", "--version", "--json", "--open", "--quiet", "--replace", "--verbose", "--set", "--out", "--seed",
    "--jobs", "--", "-h", "-1", "--no",
]  # fmt: skip
_PATHS = [
    "world.ues.count", "world", "learning.attacks[0].kind", "learning.attacks[9]", "vary", "seed", "a..b",
    "world.radio", "learning", "[0]", "train.steps",
]  # fmt: skip


def command_line(valid, draw):
    words = draw.choice(_LINES).split()
    small = [w for w in ODD_WORDS if len(w) <= 300]
    for _ in range(draw.choice([1, 1, 2, 3])):
        how, k = draw.randrange(6), draw.randrange(len(words))
        if how == 0:
            words[k] = draw.choice([*small, *ODD_NUMBERS])
        elif how == 1 and len(words) > 1:
            del words[k]
        elif how == 2:
            words.insert(k + 1, draw.choice([*_MORE, *small]))
        elif how == 3:
            words[k] = draw.choice(draw.choice(_LINES).split())
        elif how == 4:
            words += ["--set", f"{draw.choice(_PATHS)}={draw.choice([*small, *ODD_NUMBERS, '{kind: ddpg}', '[1, 2'])}"]
        else:
            words[k] = text_changed(words[k].encode(), draw).decode("utf-8", "replace")[:500]
    words = [w.replace("\0", "") if draw.random() < 0.5 else w for w in words]
    return _bounded(words), chosen(valid, *_FILES), True


def _bounded(words):
    """Without what would write outside of the folder of the case: absolute and upper paths of folders."""
    return [
        w.replace("..", ".").replace("=/", "=")
        if w.startswith("/dev/") or "/proc/" in w
        else w.replace("..", ".").lstrip("/")
        for w in words
    ]
