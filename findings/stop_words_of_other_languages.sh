#!/usr/bin/env bash
# The stop words of stopwordsiso 0.7.1 are no function words alone. The English list has 1,298 words, among them "full",
# "empty", "buy", "null" and "value"; lists of other languages have nouns of English: "dog" is Danish, "cat" Romanian,
# "car" French, "door" Dutch. Whoever drops the words of all languages before texts are compared makes "Anna has a dog."
# and "Anna has a cat." equal, and with the English list alone "The tank is full." and "The tank is empty."
#   seen: of 12 such words 11 are in a list, 6 in the English one
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "stopwordsiso==0.7.1"
"$folder/venv/bin/python" - <<'PYTHON'
from stopwordsiso import langs, stopwords

words = ["full", "empty", "buy", "null", "value", "mean", "dog", "cat", "car", "door", "war", "data"]
english = [word for word in words if word in stopwords("en")]
anywhere = [word for word in words if word in stopwords(langs())]
told = {word: [one for one in sorted(langs()) if word in stopwords(one)] for word in words}
print(f"{len(stopwords('en'))} English words; of {len(words)} {len(anywhere)} are in a list, {len(english)} in English")
print(told)
assert english == words[:6]
assert len(anywhere) == 11
PYTHON
