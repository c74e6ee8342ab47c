/** A recording that goes on is followed. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accessible, expect, fits, given, serve, test } from './served';

/** A server that a client asks twenty times a second, each time for a while. */
const SYSTEM = `
import http.client, os, time
from http.server import BaseHTTPRequestHandler, HTTPServer
class Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self): self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
server = HTTPServer(("127.0.0.1", 0), Quiet)
if os.fork() == 0: server.serve_forever()
c = http.client.HTTPConnection("127.0.0.1", server.server_port)
while True:
    c.request("GET", "/order"); c.getresponse().read(); time.sleep(0.05)
`;

let recorder: ChildProcess | undefined;
let place = '';

test.afterEach(() => {
  recorder?.kill('SIGINT');
  if (place) rmSync(place, { recursive: true, force: true });
});

/** Starts to record; where that is refused, why. */
async function record(folder: string): Promise<string> {
  recorder = spawn(given('WAKEPATH'), ['record', '-o', folder, '--', 'python3', '-c', SYSTEM], { stdio: ['ignore', 'ignore', 'pipe'] });
  return await new Promise((done) => {
    let said = '';
    recorder!.stderr!.on('data', (text: Buffer) => ((said += text.toString()), said.includes('recording into') && done('')));
    recorder!.on('exit', () => done(said || 'it ended at once'));
  });
}

test('the page follows a recording, in its last minutes, until it is paused', async ({ page }) => {
  place = mkdtempSync(join(tmpdir(), 'wakepath-live-'));
  const folder = join(place, 'trace');
  const refused = await record(folder);
  test.skip(/needs CAP|lacks|refused/.test(refused), `recording needs root: ${refused}`);
  expect(refused).toBe('');
  const [address, end] = await serve(folder);
  try {
    await page.goto(address);
    const shown = page.getByRole('group', { name: 'The recording that is shown' });
    await expect(shown.getByRole('status')).toHaveText('Live');
    const counted = async () => Number((/([\d  ]+) requests? in/.exec(await page.getByRole('region', { name: 'Kinds of request' }).innerText())?.[1] ?? '0').replace(/\D/g, ''));
    await expect.poll(counted).toBeGreaterThan(3);
    // by itself there is more
    const before = await counted();
    await expect.poll(counted).toBeGreaterThan(before);
    await shown.getByRole('button', { name: '1 min' }).click();
    await expect(page).toHaveURL(/last=1m/);
    await expect(page.locator('code', { hasText: 'requests --each' })).toContainText('--from=-1m');
    await expect.poll(counted).toBeGreaterThan(before);
    // by keyboard
    const pause = shown.getByRole('button', { name: 'Pause' });
    await pause.focus();
    await page.keyboard.press('Enter');
    await expect(shown.getByRole('status')).toHaveText('Paused');
    // what had been asked for before may still arrive; then nothing more does
    let paused = 0;
    const arrived = async () => {
      paused = await counted();
      await page.waitForTimeout(5000);
      return (await counted()) - paused;
    };
    await expect.poll(arrived, { timeout: 30_000 }).toBe(0);
    await expect(shown.getByRole('button', { name: 'Read it again' })).toBeVisible();
    await accessible(page);
    await page.setViewportSize({ width: 390, height: 800 });
    await fits(page);
    await pause.click();
    await expect(shown.getByRole('status')).toHaveText('Live');
    await expect.poll(counted).toBeGreaterThan(paused);
    // the part that is shown stays, whatever is looked at
    await page.getByRole('link', { name: 'Tasks' }).click();
    await expect(page).toHaveURL(/view=tasks&last=1m/);
    await expect(page.locator('code', { hasText: 'timeline' }).first()).toContainText('--from=-1m');
    // what was recorded last is read when the recording ends, and nothing is said to go on
    recorder!.kill('SIGINT');
    await expect(shown.getByText('Live')).toHaveCount(0);
    await expect(page.getByText('The recording has gone on since.')).toHaveCount(0);
  } finally {
    end();
  }
});
