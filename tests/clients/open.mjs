// The promises that tine does not keep yet, by what is missing. A test that is
// named here has to fail; once it does not, its name is taken away.

export const OPEN = {
  "servers of tools": [
    "a server is added to a running session",
  ],
  "hooks": [
    "hooks are told in the stream on request",
  ],
  "requests that are common": [
    "what was used is told for days and weeks",
  ],
  "what a yes adds": [
    "a yes can add a directory, and a rule that denies",
  ],
  "refusals at the start": [
    "qwen: a session that is not there is an error that names it",
  ],
};
