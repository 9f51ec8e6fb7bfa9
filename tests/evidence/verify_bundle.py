"""A second implementation of `docs/evidence.md`, to show that the document suffices to write a verifier.

    python verify_bundle.py BUNDLE_FILE PUBLIC_KEY_HEX

Checks everything in a bundle: signature, receipt digest, subjects, artifact and event chain, for one trusted key.
Exit status: 0 accepted, 1 rejected, 2 wrong use or a missing library. Not a product: it has none of the bounds.

Needs: pip install cryptography
"""

import base64
import hashlib
import json
import sys

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError as missing:
    print(f"cannot verify: {missing}", file=sys.stderr)
    sys.exit(2)

TYPE = "application/vnd.in-toto+json"


class Rejected(Exception):
    """Why the bundle is not accepted."""


def require(holds, why):
    if not holds:
        raise Rejected(why)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def canonical(value):
    # Python sorts strings by code point, which is the order of their UTF-8 bytes.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def strict(text):
    def members(pairs):
        require(len({name for name, _ in pairs}) == len(pairs), "a member name twice")
        return dict(pairs)

    def no_float(_):
        raise Rejected("a number that is not an integer")

    return json.loads(text, object_pairs_hook=members, parse_float=no_float, parse_constant=no_float)


def signed_payload(text, public_key):
    envelope = strict(text)
    payload = base64.b64decode(envelope["payload"], validate=True)
    kind = envelope["payloadType"].encode()
    message = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    for signature in envelope["signatures"]:
        try:
            public_key.verify(base64.b64decode(signature["sig"], validate=True), message)
            break
        except InvalidSignature:
            continue
    else:
        raise Rejected("no valid signature")
    require(envelope["payloadType"] == TYPE, "payload type")
    return strict(payload)


def check_statement(statement, node):
    require(statement["_type"] == "https://in-toto.io/Statement/v1", "statement type")
    require(statement["predicateType"] == "https://mesh.invalid/attestation/execution/v1", "predicate type")
    predicate = statement["predicate"]
    receipt, result, job = predicate["receipt"], predicate["result"], predicate["executionId"]
    require(predicate["schemaVersion"] == receipt["version"] == receipt["event_chain"]["version"] == 1, "version")
    require(receipt["job_id"] == job and receipt["requester"] == predicate["tenant"], "job or tenant")
    bare = {name: member for name, member in receipt.items() if name != "receipt_sha256"}
    require(sha256(canonical(bare)) == receipt["receipt_sha256"], "receipt digest")
    observed = receipt.get("observed", {})
    if "policy_sha256" in observed:
        policy = {name: member for name, member in observed.items() if name != "policy_sha256"}
        require(sha256(canonical(policy)) == observed["policy_sha256"], "policy digest")
    require(receipt["node"] == node, "node did not sign")
    first = {"name": result["name"], "digest": {"sha256": result["sha256"]}, "mediaType": result["mediaType"]}
    files = [
        {"name": f"mesh://jobs/{job}/{file['path']}", "digest": {"sha256": file["sha256"]}}
        for file in receipt["artifacts"]
    ]
    require(statement["subject"] == [first, *files], "subjects")
    return receipt, result


def captured(stream):
    return stream.encode() if isinstance(stream, str) else base64.b64decode(stream["content"], validate=True)


def check_artifact(text, receipt, result):
    data = text.encode()
    require(sha256(data) == result["sha256"] and len(data) == result["sizeBytes"], "artifact digest or size")
    artifact = strict(data)
    require(artifact["receipt_sha256"] == receipt["receipt_sha256"], "artifact of another receipt")
    require(artifact["status"] == receipt["outcome"], "artifact status")
    for stream in ("stdout", "stderr"):
        kept = captured(artifact[stream])
        require(sha256(kept) == receipt["output"][f"{stream}_sha256"], stream)
        require(len(kept) == receipt["output"][f"{stream}_bytes"], stream)


def check_events(events, job, chain):
    def u64(number):
        return number.to_bytes(8, "big")

    def sized(data):
        return u64(len(data)) + data

    previous = b""
    for place, event in enumerate(events, start=1):
        preimage = b"mesh-job-event\0\0" + u64(1) + sized(job.encode()) + u64(place) + u64(event["ts_ms"])
        preimage += sized(event["kind"].encode()) + sized(canonical(event["data"])) + sized(previous)
        linked = event["seq"] == place and event["hash_version"] == 1 and (event["prev_hash"] or "") == previous.hex()
        require(linked and sha256(preimage) == event["event_hash"], f"event {place}")
        previous = bytes.fromhex(event["event_hash"])
    require(events[-1]["kind"] == "finished", "the chain is not finished")
    require(previous.hex() == chain["head"] and len(events) == chain["events"], "the chain's head or length")


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    raw = bytes.fromhex(sys.argv[2])
    node = base64.b32encode(raw).decode().rstrip("=").lower()
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    try:
        bundle = strict(text)
        require(bundle["version"] == 1, "bundle version")
        statement = signed_payload(bundle["envelope"], Ed25519PublicKey.from_public_bytes(raw))
        receipt, result = check_statement(statement, node)
        if "artifact" in bundle:
            check_artifact(bundle["artifact"], receipt, result)
        if "events" in bundle:
            check_events(bundle["events"], receipt["job_id"], receipt["event_chain"])
    except (Rejected, LookupError, TypeError, ValueError) as why:
        print(f"rejected: {why}")
        return 1
    print(f"accepted: {node} says {receipt['outcome']}, exit code {receipt['exit_code']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
