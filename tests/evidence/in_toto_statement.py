"""Read one DSSE envelope's payload as an in-toto Statement, with in-toto's own library.

    python in_toto_statement.py ENVELOPE_FILE

Exit status: 0 it is a valid Statement, version 1, without members in-toto does not define; 1 it is not; 2 wrong use or
a missing library. Checks the form only, no signature.

Needs: pip install in-toto-attestation
"""

import base64
import json
import sys

try:
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement
except ImportError as missing:
    print(f"cannot read: {missing}", file=sys.stderr)
    sys.exit(2)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        payload = base64.b64decode(json.load(file)["payload"], validate=True)
    try:
        message = json_format.Parse(payload, statement_pb2.Statement())
        Statement.copy_from_pb(message).validate()
    except (json_format.ParseError, UnicodeDecodeError, ValueError) as why:
        print(f"rejected: {why}")
        return 1
    print(f"accepted: {message.predicate_type} about {len(message.subject)} subjects")
    return 0


if __name__ == "__main__":
    sys.exit(main())
