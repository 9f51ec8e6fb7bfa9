"""Verify one DSSE envelope with securesystemslib, as a judge that shares no code with us.

    python securesystemslib_verify.py ENVELOPE_FILE PUBLIC_KEY_HEX

PUBLIC_KEY_HEX is the raw 32-byte Ed25519 public key. Exit status: 0 accepted, 1 rejected, 2 wrong use or a missing
library. Checks the envelope's signature only; what the payload says is not looked at.

Needs: pip install 'securesystemslib[crypto]' cryptography
"""

import hashlib
import json
import sys

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey
except ImportError as missing:
    print(f"cannot verify: {missing}", file=sys.stderr)
    sys.exit(2)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    raw = bytes.fromhex(sys.argv[2])
    # securesystemslib looks only at signatures that carry the key's id, so the key gets the id our format gives it.
    keyid = "sha256:" + hashlib.sha256(raw).hexdigest()
    key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(raw), keyid=keyid)
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    try:
        Envelope.from_dict(document).verify([key], threshold=1)
    except VerificationError as why:
        print(f"rejected: {why}")
        return 1
    print(f"accepted: signed by {keyid}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
