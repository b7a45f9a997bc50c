#!/usr/bin/env python3
"""Kills tine at random moments and counts the processes that live on one second later.

usage: tests/leftovers/kills.py [--tine PATH] [--kills N] [--seed N] [BACKEND …]

Each kill (SIGKILL) hits a run of eight agents at once, whose commands stay in the group of their
shell, leave it for a session of their own, or become daemons without environment and parent. The
backends are `bwrap`, `landlock` (bubblewrap is hidden in a mount namespace, for which one must be
root), `none`, `hooks` and `servers`. Exits with 1 if a process has lived on.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

BACKENDS = ["bwrap", "landlock", "none", "hooks", "servers"]
PATIENCE_S = 1.0
LEAVES = (
    # `tail` ends by itself when nobody reads its output.
    'exec >/dev/null 2>&1; f="$PWD/watched"; tail -f "$f" & setsid tail -f "$f" & '
    '(setsid env -i "$(command -v tail)" -f "$f" &); '
    "trap '' TERM HUP INT; tail -f \"$f\""
)
HIDE_BWRAP = (
    "for file in /usr/bin/bwrap /bin/bwrap /usr/local/bin/bwrap; do "
    'if test -f $file; then mount --bind /dev/null $file; fi; done; exec "$@"'
)


def processes(place):
    """Returns the command lines that name the place, by process."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            line = pathlib.Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        line = line.replace(b"\0", b" ").decode(errors="replace").strip()
        if str(place) in line:
            found[int(entry)] = line
    return found


def script():
    command = {"name": "Bash", "arguments": {"command": LEAVES}}
    tasks = [
        {"description": f"slot {n}", "prompt": "go", "subagent_type": "general-purpose"}
        for n in range(8)
    ]
    batch = {"name": "Agent", "arguments": {"tasks": tasks}}
    return {"units": {"main": [{"calls": [batch]}], "*": [{"calls": [command]}]}}


def command(backend, tine, place):
    model = place / "script.json"
    model.write_text(json.dumps(script()))
    run = [tine, "-p", "go", "-m", f"scripted:{model}"]
    hook = {"type": "command", "command": LEAVES, "timeout": 60}
    servers = {f"s{n}": {"command": "sh", "args": ["-c", LEAVES]} for n in range(4)}
    free = ["--permission-mode", "bypassPermissions"]
    hidden = ["unshare", "--mount", "sh", "-c", HIDE_BWRAP, "sh"]
    match backend:
        case "bwrap":
            return [*run, "--allowed-tools", "Bash", "Agent"]
        case "landlock":
            return [*hidden, *run, "--allowed-tools", "Bash", "Agent"]
        case "none":
            return [*run, *free]
        case "hooks":
            settings = {"hooks": {"PreToolUse": [{"hooks": [hook]}]}}
            return [*run, *free, "--settings", json.dumps(settings)]
        case "servers":
            return [*run, *free, "--mcp-config", json.dumps({"mcpServers": servers})]
    sys.exit(f"unknown backend `{backend}` (expected one of: {', '.join(BACKENDS)})")


def kill_once(backend, tine, chance):
    """Returns how many processes ran at the kill, and which live on."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory).resolve()
        work = place / "work"
        work.mkdir()
        (work / "watched").touch()
        (place / "home").mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home")}
        child = subprocess.Popen(
            command(backend, tine, place),
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Half of the kills hit the start of the commands, half come when they run.
        until = time.monotonic() + 20
        while len(processes(place)) < 2 and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(chance.choice([chance.uniform(0, 0.1), chance.uniform(0, 0.6)]))
        before = len(processes(place)) - 1
        child.send_signal(signal.SIGKILL)
        child.wait()
        time.sleep(PATIENCE_S)
        left = processes(place)
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return before, left


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tine", default="target/debug/tine")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("backends", nargs="*", default=BACKENDS, metavar="BACKEND")
    given = parser.parse_args()
    tine = str(pathlib.Path(given.tine).resolve())
    has_left = False
    print("| backend | kills | processes at the kill | runs with leftovers | leftovers |")
    print("|---|---|---|---|---|")
    for backend in given.backends:
        chance = random.Random(given.seed)
        results = [kill_once(backend, tine, chance) for _ in range(given.kills)]
        ran = sum(before for before, _ in results)
        runs = sum(1 for _, left in results if left)
        left = [line for _, left in results for line in left.values()]
        print(f"| {backend} | {given.kills} | {ran} | {runs} | {len(left)} |", flush=True)
        for line in sorted(set(left))[:10]:
            print(f"    {line[:200]}", file=sys.stderr)
        has_left |= bool(left)
    sys.exit(1 if has_left else 0)


if __name__ == "__main__":
    main()
