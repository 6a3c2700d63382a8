#!/usr/bin/env python3
"""Prints the conversation that the model of a Reins session sees: read_session.py FOLDER"""
import json, pathlib, subprocess, sys

TABLE = list(range(256))
for _ in range(8):
    TABLE = [n >> 1 ^ 0x82F63B78 * (n & 1) for n in TABLE]
def crc32c(data, crc=0xFFFFFFFF):
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF

def events(folder):
    bounds = json.loads((folder / "header.json").read_text()).get("parent", {}).get("segments", [])
    paths = sorted(path for end in ("log", "log.zst") for path in folder.glob(f"[0-9]*.{end}"))
    for number, path in {int(path.name[:8]): path for path in paths}.items():  # .zst wins
        data = path.read_bytes()
        if path.suffix == ".zst":
            data = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE).stdout
        for line in data.split(b"\n")[:-1]:  # what follows the last line feed is unfinished
            if line[-18:] != b',"sum":"%08x"}' % crc32c(line[:-18]):
                print(f"{path}: passed over a damaged line", file=sys.stderr)
            elif number >= len(bounds) or json.loads(line)["seq"] <= bounds[number]:
                yield json.loads(line)

def words(block):
    if block["type"] == "tool-call":
        return f'{block["name"]} {block["arguments"]}'
    return block.get("text") or "\n".join(map(words, block.get("content", []))) or block["type"]

log, shown = list(events(pathlib.Path(sys.argv[1]))), []
damage = [event["data"] for event in log if event["type"] == "session/recovered"]
spans = [span if isinstance(span, list) else [span] for d in damage for span in d.get("aside", [])]
for event in (e for e in log if not any(span[0] <= e["seq"] <= span[-1] for span in spans)):
    if how := event.get("surface"):
        ends = how["replace"] if how != "append" else []
        at = [place for place, old in enumerate(shown) if old["seq"] in ends] or [len(shown)]
        shown[at[0]:at[-1] + 1] = [event]
for seq, message in ((event["seq"], event["data"]["message"]) for event in shown):
    print(f'## {seq} {message["role"]}', *map(words, message["content"]), sep="\n")
