"""Write packages.f16 and packages.csv: sentence embeddings of descriptions of Debian packages, with their sections.

Needs apt with package lists, and the Python package wordllama. Weights and tokenizer are in its wheel, so nothing else
is downloaded:

    pip install wordllama==0.4.0.post1 && python3 embed.py

The embedding of a text is the mean of the vectors of its tokens, with length 1.
"""
import csv
import importlib.util
import pathlib
import random
import subprocess

import numpy
from safetensors.numpy import load_file
from tokenizers import Tokenizer

package = pathlib.Path(importlib.util.find_spec("wordllama").origin).parent
tokenizer = Tokenizer.from_file(str(package / "tokenizers/l2_supercat_tokenizer_config.json"))
weights = load_file(package / "weights/l2_supercat_256.safetensors")["embedding.weight"].astype("f4")

SECTIONS = ["admin", "editors", "fonts", "games", "graphics", "mail", "math", "net", "science", "sound", "text", "web"]
EACH = 300

found = {s: {} for s in SECTIONS}  # section: source package: (name, sentences)
lists = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
for stanza in lists.split("\n\n"):
    fields, key = {}, ""
    for line in stanza.splitlines():
        if line.startswith(" ") and key:
            fields[key] += "\n" + line[1:]
        elif ":" in line:
            key, value = line.split(":", 1)
            fields[key] = value.strip()
    text = fields.get("Description-en", fields.get("Description", ""))
    source = fields.get("Source", fields.get("Package", "")).split(" ")[0]
    section = fields.get("Section", "").split("/")[-1]
    if section in found and text:  # one package of each source: others repeat its text
        found[section].setdefault(source, (fields["Package"], text.split("\n.\n")[0].replace("\n", " ")))

rows = []
for section in SECTIONS:
    for name, text in random.Random(1).sample([found[section][s] for s in sorted(found[section])],
                                               min(EACH, len(found[section]))):
        rows.append((name, section, text))
random.Random(1).shuffle(rows)
vectors = numpy.array([weights[tokenizer.encode(text, add_special_tokens=False).ids].mean(axis=0) for _, _, text in rows])
vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
vectors.astype("<f2").tofile("packages.f16")
with open("packages.csv", "w", newline="") as f:
    csv.writer(f, lineterminator="\n").writerows([("package", "section"), *((n, s) for n, s, _ in rows)])
print(vectors.shape, {s: sum(r[1] == s for r in rows) for s in SECTIONS})
print(rows[0], rows[1])
