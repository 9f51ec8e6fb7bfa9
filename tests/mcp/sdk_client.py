"""Speaks to the mesh's MCP server through the official Python SDK, and judges what it hears.

    sdk_client.py --mode legacy|auto|2026-07-28 [--agent ADDRESS] -- COMMAND [ARGUMENT...]

COMMAND is the server; its environment is ours. Without --agent the server is expected to find no node: it must list
its tools and answer every call with a way out. With --agent there is a node, on which that agent answers and jobs run.
The SDK itself checks each structured result against the tool's output schema. Exits 0 when all is well.
"""

import argparse
import json
import os
import time

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

TOOLS = [
    "whoami",
    "agents_resolve",
    "messages_send",
    "ask",
    "invocations_get",
    "invocations_wait",
    "run_code",
    "job_result",
    "cancel_job",
]
ENDLESS = "import time; time.sleep(60)"


def text(result):
    return json.loads(result.content[0].text)


async def report(client, tool, **arguments):
    """The document of a call that must work."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, (tool, result)
    assert text(result) == result.structured_content, (tool, result)
    return result.structured_content


async def refusal(client, tool, **arguments):
    """The error of a call that must not work."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, (tool, result)
    assert result.structured_content is None, (tool, result)
    return text(result)["error"]


async def check_list(client):
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == TOOLS, tools
    for tool in tools:
        assert tool.description and tool.output_schema and tool.annotations, tool


async def check_refusals(client):
    for arguments, named in [
        ({"code": "1"}, "language"),
        ({"language": "python", "code": "1", "wait_seconds": 301}, "wait_seconds"),
        ({"language": "python", "code": "1", "isolation": "none"}, "isolation"),
        ({"language": "python", "code": "1", "token": "x"}, "token"),
    ]:
        error = await refusal(client, "run_code", **arguments)
        assert error["code"] == "argument_invalid" and named in error["message"], error


async def check_without_node(client):
    flight, job = "f-" + "0" * 26, "j-" + "0" * 26
    for tool, arguments in [
        ("whoami", {}),
        ("agents_resolve", {"label": "@reviewer"}),
        ("messages_send", {"to": "@reviewer", "body": "hello"}),
        ("ask", {"to": "@reviewer", "body": "hello"}),
        ("run_code", {"language": "python", "code": "print(1)"}),
    ]:
        error = await refusal(client, tool, **arguments)
        assert error["code"] in ("no_home", "node_not_running"), error
        assert error["message"] and error["hints"], error
    for tool, arguments in [("invocations_get", {"flight_id": flight}), ("cancel_job", {"job_id": job})]:
        error = await refusal(client, tool, **arguments)
        assert error["message"], error


async def check_agents(client, agent):
    assert (await report(client, "whoami"))["node"]
    resolved = await report(client, "agents_resolve", label=agent)
    assert resolved["kind"] == "resolved", resolved
    assert (await report(client, "agents_resolve", label="@no-such-agent"))["kind"] == "unknown"
    assert (await report(client, "agents_resolve", label="@a b"))["kind"] == "unparseable"
    sent = await report(client, "messages_send", to=agent, body="hello", request_id="sdk-message")
    assert sent["ok"] and sent["ids"]["message_id"], sent

    answered = await report(client, "ask", to=agent, body="say hello", wait_seconds=60)
    assert answered["ok"] and answered["complete"] and answered["outcome"]["reply"], answered
    flight = answered["ids"]["flight_id"]
    got = await report(client, "invocations_get", flight_id=flight)
    assert got["found"] and got["flight"]["state"] == "completed", got
    waited = await report(client, "invocations_wait", flight_id=flight, timeout_seconds=5)
    assert waited["wait_status"] == "completed", waited


async def check_jobs(client):
    for name in ("run_code", "rookhold_run_code"):
        done = await report(client, name, language="python", code="print(6 * 7)")
        assert done["complete"] and done["result"]["stdout"] == "42\n", done
        assert done["attestation"]["state"] != "pending", done
    failed = await report(client, "run_code", language="python", code="import sys; sys.exit(3)")
    assert (failed["status"], failed["result"]["exit_code"]) == ("failed", 3), failed

    pending = await report(client, "run_code", language="python", code=ENDLESS, wait_seconds=0)
    assert not pending["complete"] and pending["next"]["tool"] == "job_result", pending
    job = pending["job_id"]
    await report(client, "cancel_job", job_id=job)
    stopped = await report(client, "job_result", job_id=job, wait_seconds=20)
    assert stopped["status"] == "cancelled", stopped


async def check_cancellation(client):
    """The call is taken back in the middle; the server stays usable. That the job stops too, the caller checks."""
    with anyio.move_on_after(1) as scope:
        await client.call_tool("run_code", {"language": "python", "code": ENDLESS, "wait_seconds": 60})
    assert scope.cancelled_caught
    with anyio.fail_after(5):
        await report(client, "whoami")


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True)
    parser.add_argument("--agent")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    program, *arguments = given.command
    server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    began = time.monotonic()
    async with Client(server, mode=given.mode) as client:
        await check_list(client)
        print(json.dumps({"mode": given.mode, "listed_after_ms": round((time.monotonic() - began) * 1000)}))
        await check_refusals(client)
        if given.agent is None:
            await check_without_node(client)
        else:
            await check_agents(client, given.agent)
            await check_jobs(client)
            await check_cancellation(client)
        # A modern server that is not asked to introduce itself does so on its results.
        assert client.server_info is None or client.server_info.name == "mesh", client.server_info


anyio.run(main)
