// A run that goes on: what has come since is asked of whoever served the page.

/** How long to wait between two questions, in milliseconds. */
const PAUSE = 1000;

/** How often in a row no answer may come before nobody is asked any more. */
const TRIES = 5;

/** Asks for what has come, until the run is over. */
async function follow() {
  let failed = 0;
  while (trace.live && failed < TRIES) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    try {
      const address = new URL('changes', location.href);
      address.search = new URLSearchParams({ token: new URLSearchParams(location.search).get('token') ?? '', after: trace.last });
      const answer = await fetch(address, { cache: 'no-store', credentials: 'omit' });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      take(await answer.json());
      failed = 0;
      refresh();
    } catch {
      failed += 1;
    }
  }
  const live = byId('live');
  live.classList.add('is-over');
  live.textContent = trace.live ? 'no answer any more' : 'ended';
}
