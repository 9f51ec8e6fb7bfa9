"""What the demo's agent has run in a sandbox: counts the text on standard input and prints what it found as JSON."""

import collections
import hashlib
import json
import string
import sys

FREQUENT = 5
LETTERS_MIN = 5

text = sys.stdin.buffer.read()
words = text.split()
plain = (word.strip(string.punctuation.encode()).lower() for word in words)
times = collections.Counter(word for word in plain if len(word) >= LETTERS_MIN)
frequent = sorted(times.items(), key=lambda entry: (-entry[1], entry[0]))[:FREQUENT]
found = {
    "lines": text.count(b"\n") + (text != b"" and not text.endswith(b"\n")),
    "words": len(words),
    "bytes": len(text),
    "sha256": hashlib.sha256(text).hexdigest(),
    "frequent": [{"word": word.decode(), "times": count} for word, count in frequent],
}
print(json.dumps(found))
