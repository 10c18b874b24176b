"""botocore's client of Bedrock: its parsed events, joined. It does not look into the chunks of InvokeModel."""

import base64

import botocore.session
from adapter import HI, call, only, serve, usage
from botocore.config import Config


def read(case):
    only(case, "bedrock_converse")
    client = botocore.session.get_session().create_client(
        "bedrock-runtime",
        region_name="eu-north-1",
        endpoint_url=case["url"],
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=20),
    )
    ask = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": HI}]}]}
    said = {
        "text": "",
        "pieces": True,
        "reasoning": "",
        "refusal": "",
        "calls": [],
        "continuations": [],
        "usage": None,
        "finish": None,
    }
    if not case["is_stream"]:
        answer = client.converse(**ask)
        for block in answer["output"]["message"]["content"]:
            said["text"] += block.get("text", "")
            if "toolUse" in block:
                said["calls"].append(
                    call(block["toolUse"]["name"], block["toolUse"]["input"], block["toolUse"]["toolUseId"])
                )
        return said | {"finish": answer["stopReason"], "usage": counted(answer["usage"])}
    tools = {}
    for event in client.converse_stream(**ask)["stream"]:
        ((name, value),) = event.items()
        if name == "contentBlockStart" and "toolUse" in value["start"]:
            tools[value["contentBlockIndex"]] = {**value["start"]["toolUse"], "input": ""}
        elif name == "contentBlockDelta":
            delta = value["delta"]
            said["text"] += delta.get("text", "")
            if "toolUse" in delta:
                tools[value["contentBlockIndex"]]["input"] += delta["toolUse"]["input"]
            thought = delta.get("reasoningContent", {})
            said["reasoning"] += thought.get("text", "")
            said["continuations"] += [thought["signature"]] if "signature" in thought else []
            if hidden := thought.get("redactedContent"):
                said["continuations"].append(base64.b64encode(hidden).decode())
        elif name == "messageStop":
            said["finish"] = value["stopReason"]
        elif name == "metadata":
            said["usage"] = counted(value["usage"])
    said["calls"] = [
        call(tool["name"], tool["input"], tool["toolUseId"])
        for tool in tools.values()
        if tool.get("type") != "server_tool_use"
    ]
    return said


def counted(counts):
    cached, written = counts.get("cacheReadInputTokens"), counts.get("cacheWriteInputTokens")
    return usage(counts["inputTokens"] + (cached or 0) + (written or 0), counts["outputTokens"], cached)


serve(["botocore"], read)
