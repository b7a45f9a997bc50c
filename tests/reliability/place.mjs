// A home, a workspace and a scripted model for runs of tine that are measured.
//
// TINE is the binary. A run sees nothing of the surroundings but the PATH.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const TINE = process.env.TINE;
assert.ok(TINE, 'set TINE to the binary, such as TINE=$PWD/target/release/tine');

/** Programs that commands and tine need; bwrap is missing from this list on purpose. */
const PROGRAMS = ['sh', 'bash', 'cat', 'sleep', 'git', 'env', 'touch', 'setsid', 'kill'];

export const BACKENDS = {
  none: { config: '[sandbox]\nmode = "off"\n', hasBwrap: true },
  bubblewrap: { config: '', hasBwrap: true },
  landlock: { config: '', hasBwrap: false },
};

/** A home, a workspace and a script. */
export class Place {
  constructor(backend, script) {
    this.root = mkdtempSync(join(tmpdir(), 'tine-reliability-'));
    this.work = join(this.root, 'work');
    mkdirSync(this.work);
    mkdirSync(join(this.root, '.config/tine'), { recursive: true });
    writeFileSync(join(this.root, '.config/tine/config.toml'), BACKENDS[backend].config);
    this.script = this.write('../script.json', JSON.stringify(script));
    this.path = process.env.PATH;
    if (!BACKENDS[backend].hasBwrap) {
      this.path = join(this.root, 'bin');
      mkdirSync(this.path);
      for (const program of PROGRAMS) {
        const found = process.env.PATH.split(':').map((each) => join(each, program)).find(existsSync);
        if (found) symlinkSync(found, join(this.path, program));
      }
    }
  }

  /** Writes a file of the workspace, and returns its path. */
  write(name, text) {
    const path = join(this.work, name);
    writeFileSync(path, text);
    return path;
  }

  /**
   * Starts a run. `wrap` is a program with arguments that runs the command behind them;
   * `env` adds variables, or removes those that are undefined.
   */
  start(flags, { script = this.script, wrap = [], env = {}, stderr = 'ignore' } = {}) {
    const allowed = ['--permission-mode', 'acceptEdits', '--allowed-tools', 'Bash'];
    const fixed = ['-m', `scripted:${script}`, ...allowed, '--config', 'agents.max_concurrent=8'];
    const [program, ...args] = [...wrap, TINE, ...fixed, ...flags];
    return spawn(program, args, {
      cwd: this.work, env: { HOME: this.root, PATH: this.path, TERM: 'dumb', ...env }, stdio: ['ignore', 'pipe', stderr],
    });
  }

  /** Returns the processes that work in this place. */
  processes() {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((id) => {
      try {
        const status = readFileSync(`/proc/${id}/stat`, 'utf8');
        const isZombie = status.slice(status.lastIndexOf(')') + 2).startsWith('Z');
        const directory = readlinkSync(`/proc/${id}/cwd`);
        const command = readFileSync(`/proc/${id}/cmdline`, 'utf8');
        return !isZombie && (directory.startsWith(this.root) || command.includes(this.root));
      } catch {
        return false; // It has ended.
      }
    });
  }

  /** Ends what is left, and returns how many processes that were. */
  clear() {
    const left = this.processes();
    for (const id of left) {
      try {
        process.kill(Number(id), 'SIGKILL');
      } catch { /* It has ended. */ }
    }
    rmSync(this.root, { recursive: true, force: true });
    return left.length;
  }
}

export function call(name, args) {
  return { name, arguments: args };
}
