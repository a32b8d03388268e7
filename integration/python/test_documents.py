"""The commands of the tutorial and of the how-to pages, in their order, in an empty home directory.

A block of code is saved as the file that its first line names. A block with `embedd run` starts the daemon, again if it
runs, and waits until it answers. What installs packages is left out, except npm's, since the tests have the packages; so is what activates them,
and what needs a cluster or another product: test_kubernetes.py, .ci/run and TestConnectExample check what these read.
Each page runs in its own network namespace, where there is one, so that it can use the ports that it names.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import harness

DOCS = harness.ROOT / "docs"
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
SKIPPED = ("go install ", "python3 -m venv ", ". ~/", "pip install ", "npm install ", "go mod ", "kubectl ", "promtool ", "redpanda-connect ")
# What a page must print, besides that no command fails.
PRINTED = {
    "tutorial": r"better\n +\S+ evidence(.|\n)*machines-\S+ is live(.|\n)*65 machines-\S+ epoch 2 (1.00|0.9)",
    "replay-dead-letters": r"4 dead letters were replayed\nno dead letters",
    "change-dimension-or-features": r"epoch \d+ 1 outputs(.|\n)*epoch \d+ 2 outputs(.|\n)*sensors +8(.|\n)*epoch \d+ 2 outputs(.|\n)*sensors +12",
    "tls-and-roles": r"600 rows(.|\n)*embedding(.|\n)*machines-1\S* (.|\n)*refused, as it should be",
    "late-labels": r'result="joined"} 800',
    "apply-elsewhere": r"True \d\S*e-\d\d",
    "produce-json": r'"embedding": ?\[',
    "vector-search": r"(1.0|0.9) of its section",
    "evaluate": r"lda +2 +0\.9(.|\n)*machines +\S.* 0\.9",
    "alerts": r'embedd_ready\{pipeline="machines"\} 0',
    "redpanda-connect": r"embedding\n0 +\[-?\d",
    "upgrade": r"waiting_for_model(.|\n)*no model yet",
}
SUFFIXES = {"python": "#", "js": "//", "go": "//"}

LOOPBACK = "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0x41))"
PRELUDE = f"""
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT
"{sys.executable}" -c "{LOOPBACK}" || true
# A server reads this password as a number with a unit, unless it is quoted.
openssl() {{ if [ "$1" = rand ]; then echo 99e1e55eb52a3af1e41b086481724f54; else command openssl "$@"; fi; }}
go() {{ (cd "{harness.ROOT}" && command go run "$OLDPWD/${{@: -1}}"); }}
run() {{
  if [ -n "${{daemon:-}}" ]; then kill $daemon; wait $daemon; fi
  embedd run 2>run.log & daemon=$!
  for _ in $(seq 300); do if embedd status >/dev/null 2>&1; then return; fi; sleep 0.1; done
  cat run.log >&2; return 1
}}
"""


def script(page, directory):
    """The blocks of a page as one script. Files are written when their block comes, as a reader would."""
    lines = [PRELUDE]
    for k, (language, text) in enumerate(re.findall(r"^ *```(\w+)\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)):
        if language in SUFFIXES:
            name = re.match(re.escape(SUFFIXES[language]) + r" (\S+)\n", text)
            assert name, f"{page}: block {k} does not begin with the name of its file"
            (directory / f"block{k}").write_text(text)
            lines.append(f"cp block{k} {name[1]}")
        elif language == "sh":
            kept = [line for line in textwrap.dedent(text).splitlines() if not line.startswith(SKIPPED)]
            if "embedd run" in kept:
                kept = ["run"]
            if kept and kept[0].startswith("nats-server "):
                kept = [kept[0] + " 2>server.log &", "for _ in $(seq 300); do (: >/dev/tcp/127.0.0.1/4222) 2>/dev/null && break; sleep 0.1; done"]
            lines += kept
        else:
            assert language in ("yaml", "json"), f"{page}: a block of {language}"  # shown only
    return "\n".join(lines)


def test_shown():
    """Files that a page shows are those of the repository."""
    assert (harness.ROOT / "examples/connect/connect.yaml").read_text() in (DOCS / "how-to/redpanda-connect.md").read_text()
    page = (DOCS / "how-to/kubernetes.md").read_text()
    for path in re.findall(r"[ `](?:kubernetes/)?((?:base|overlays)/[\w./]+)", page):
        assert (harness.ROOT / "deploy/kubernetes" / path).exists(), path


def namespaced():
    return shutil.which("unshare") and subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page(program, server_program, tmp_path, page):
    text = page.read_text()
    for packages in re.findall(r"^npm install (.*)$", text, re.MULTILINE):
        if not shutil.which("npm"):
            pytest.skip("no npm")
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *packages.split()], cwd=tmp_path, check=True)
    path = [pathlib.Path(program).parent, pathlib.Path(server_program).parent, pathlib.Path(sys.executable).parent, os.environ["PATH"]]
    env = {**os.environ, "HOME": str(tmp_path), "PATH": ":".join(map(str, path)),
           "PYTHONPATH": str(harness.ROOT / "clients" / "python" / "src"),
           "CLONE": str(harness.ROOT), "GOCACHE": go_env("GOCACHE"), "GOMODCACHE": go_env("GOMODCACHE")}
    env.pop("NATS_URL", None)
    command = ["unshare", "-rn", "bash"] if namespaced() else ["bash"]
    done = subprocess.run(command, input=script(page, tmp_path), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert re.search(PRINTED.get(page.stem, ""), done.stdout), f"{done.stdout}\n{done.stderr}"


def go_env(name):
    return subprocess.run(["go", "env", name], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("page", [*PAGES, *sorted((DOCS / "concepts").glob("*.md")), DOCS / "README.md"], ids=lambda p: p.stem)
def test_short(page):
    """Pages that are read from the start to the end are short."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(text.split()) < 1500


def test_links():
    """Links between pages lead to files that exist, and to headings of theirs."""
    pages = [path for path in harness.ROOT.rglob("*.md") if "node_modules" not in path.parts]
    broken = []
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            path = (page.parent / file).resolve() if file else page
            if not path.exists() or anchor and path.suffix == ".md" and anchor not in anchors(path):
                broken.append(f"{page.relative_to(harness.ROOT)}: {target}")
    assert broken == []


def test_index():
    """The index names every page."""
    named = {(DOCS / target.partition("#")[0]).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", (DOCS / "README.md").read_text())}
    pages = {path for path in DOCS.rglob("*.md") if path.parent.name != "evidence"}
    assert pages - named - {DOCS / "README.md"} == set()


def anchors(page):
    """The anchors of the headings of a page, as GitHub makes them, and those that it sets."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h).lower() for h in headings]
    return {re.sub(r"[^\w\- ]", "", h).replace(" ", "-") for h in plain} | set(re.findall(r'<a id="([^"]+)"', text))
