/** The Overview answers before it draws; time and selection hold in every view. */
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import type { Page } from '@playwright/test';
import { accessible, choose, expect, fits, given, search, settled, test } from './served';

const SIZES = [800, 1280, 2560].map((width) => ({ width, height: 900 }));
const cards = (page: Page) => page.getByRole('region', { name: 'What was found' });
const strip = (page: Page) => page.getByRole('application', { name: /^Rate, errors and durations/ });
const parameter = (page: Page, name: string) => new URL(page.url()).searchParams.get(name);

/** What a command of this build says of the demo's recording. */
function told(...args: string[]): Record<string, unknown> {
  const run = spawnSync(given('WAKEPATH'), [...args, '--json', given('PAGE_DEMO')], { encoding: 'utf8', cwd: process.env.PAGE_FROM, maxBuffer: 1 << 28 });
  expect(run.stderr).not.toContain('error');
  return JSON.parse(run.stdout) as Record<string, unknown>;
}

/** Changes an answer of the server on its way. */
async function changed(page: Page, question: string, change: (body: Record<string, unknown>) => void) {
  await page.route(`**/api/${question}?**`, async (route) => {
    const reply = await route.fetch();
    const body = (await reply.json().catch(() => null)) as Record<string, unknown> | null;
    if (body === null) return route.abort().catch(() => undefined);
    change(body);
    await route.fulfill({ response: reply, json: body });
  });
}

for (const colorScheme of ['light', 'dark'] as const) {
  test(`verdicts are seen first and whole, at every width, ${colorScheme}`, async ({ page, demo }) => {
    await page.emulateMedia({ colorScheme });
    const sentence = 'GET /vote/{n} at nginx:80: 7 of 238 failed. The slowest took 1.2 s.';
    let found: { level: string; sentence: string }[] = [];
    await changed(page, 'triage', (body) => {
      const all = body['findings'] as typeof found;
      const added = { section: 'fails', level: 'bad', sentence, next: 'wakepath show demo 0123456789abcdef', since_ns: 1_795_915_731_674_888_443 };
      body['findings'] = found = [...all, added];
    });
    for (const size of SIZES) {
      await page.setViewportSize(size);
      await page.goto(demo);
      await settled(page);
      const list = cards(page).getByRole('list').first();
      // by a word, and a shape that says the same as the colour
      const worst = list.locator('.card', { hasText: '7 of 238 failed' });
      await expect(worst).toContainText('Problem');
      await expect(worst).toContainText('First at ');
      await expect(worst.locator('svg path')).toHaveCount(1);
      // in the order of the terminal, which has the gravest first
      const heads = await list.locator('.card .head').allInnerTexts();
      const sentences = found.filter((f) => f.level !== 'good').map((f) => f.sentence);
      expect(sentences.map((text, i) => text.startsWith(heads[i] ?? '?'))).toEqual(heads.map(() => true));
      await expect(list.locator('.card').first()).toBeInViewport();
      // nothing is cut off, and nothing scrolls inside
      const cut = await cards(page).evaluate((box) => [...box.querySelectorAll('*')].filter((e) => e.clientHeight > 0 && e.scrollHeight > e.clientHeight + 1 && getComputedStyle(e).overflowY !== 'visible' && !e.classList.contains('hidden')).map((e) => `${e.tagName} ${e.className} ${e.textContent}`));
      expect(cut).toEqual([]);
      await fits(page);
      await accessible(page);
      // above what is drawn
      const [above, below] = await Promise.all([list.boundingBox(), page.getByRole('region', { name: 'Requests over time' }).boundingBox()]);
      expect(above!.y + above!.height).toBeLessThanOrEqual(below!.y);
    }
    await expect(cards(page).locator('code', { hasText: 'wakepath show demo 0123456789abcdef' })).toBeVisible();
  });
}

test('a card leads to the view that proves it, with the same command to copy', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  const findings = told('triage', '--within=30s')['findings'] as { sentence: string; next: string; level: string }[];
  for (const f of findings.filter((f) => f.level !== 'good' && f.next.includes(' why '))) {
    const card = cards(page).locator('.card', { hasText: f.sentence.slice(0, 60) }).first();
    await expect(card.locator('code')).toContainText(f.next);
    await card.getByRole('link', { name: 'Show why' }).click();
    await expect(page).toHaveURL(/view=why/);
    // a machine that is too slow for the answer is told the command for all kinds
    const kind = parameter(page, 'kind');
    expect(f.next.includes('--kind')).toBe(kind !== null);
    const shown = page.locator('code', { hasText: 'wakepath why' });
    if (kind === null) await expect(shown).not.toContainText('--kind');
    else {
      await expect(shown).toContainText(kind);
      expect(f.next).toContain(kind);
    }
    await page.goBack();
    await settled(page);
  }
  await cards(page).getByRole('link', { name: 'Show the request', exact: true }).first().click();
  await expect(page.getByRole('listbox', { name: /Waterfall/ })).toBeVisible();
});

test('a period of the strip holds in every view, by mouse and by keyboard', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  const box = (await strip(page).boundingBox())!;
  // the requests of the demo come in the middle of its recording
  await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.75, box.y + 40, { steps: 5 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=%2B\d+ns&to=%2B\d+ns/);
  const [from, to] = [parameter(page, 'from')!, parameter(page, 'to')!];
  await page.mouse.move(5, 5);
  await settled(page);
  await expect(page.locator('#strip-is')).toContainText('Selected for every view: +');
  await expect(page.locator('code', { hasText: '--map' })).toContainText(`--from=${from} --to=${to}`);
  for (const [view, command] of [['Why', 'wakepath why'], ['Flame', 'wakepath flame'], ['Tasks', 'wakepath timeline'], ['What if', 'wakepath forecast']] as const) {
    await page.getByRole('navigation').getByRole('link', { name: view, exact: true }).click();
    await expect(page).toHaveURL(new RegExp(`from=${encodeURIComponent(from)}`));
    await expect(page.locator('code', { hasText: command }).first()).toContainText(`--from=${from}`);
    await expect(strip(page).locator('.period')).toHaveCount(1);
  }
  await page.getByRole('button', { name: 'All time' }).click();
  await expect(page).not.toHaveURL(/from=/);
  // by keyboard
  await strip(page).focus();
  await page.keyboard.press('Home');
  await expect(page.locator('#strip-is')).toContainText(/requests?, .* errors?, /);
  for (let i = 0; i < 60; i++) await page.keyboard.press('Shift+ArrowRight');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/from=%2B0ns&to=%2B\d+ns/);
  await strip(page).focus();
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/from=/);
  // times of day
  const tick = strip(page).locator('.tick').nth(1);
  await expect(tick).toContainText('+');
  await page.getByRole('button', { name: 'UTC', exact: true }).click();
  await expect(tick).toContainText(/^\d\d:\d\d/);
});

test('the strip counts what the command counts, and marks failures by shape', async ({ page, demo }) => {
  const all = told('requests', '--over-time', '--columns=120') as { requests: number; columns: { requests: number; errors: number }[] };
  await changed(page, 'over_time', (body) => {
    const columns = body['columns'] as { errors: number; requests: number }[];
    // one failed, however many did in this recording
    for (const c of columns) c.errors = 0;
    columns.find((c) => c.requests > 0)!.errors = 1;
    body['errors'] = 1;
  });
  await page.goto(demo);
  await settled(page);
  await expect(strip(page).locator('rect.rate')).toHaveCount(all.columns.filter((c) => c.requests > 0).length);
  await expect(strip(page).locator('rect.errors')).toHaveCount(1);
  await expect(strip(page).locator('rect.errors')).toHaveAttribute('fill', 'url(#failed)');
  await expect(strip(page)).toContainText('1 ✕');
  await expect(page.locator('main')).toContainText(`${all.requests} requests of `);
  // no label lies on another
  const boxes = await strip(page).locator('text').evaluateAll((all) => all.map((t) => t.getBoundingClientRect()).map((b) => [b.left, b.right, b.top + 3, b.bottom - 3] as const));
  const clash = boxes.filter((a, i) => boxes.some((b, j) => j < i && a[0] < b[1] && b[0] < a[1] && a[2] < b[3] && b[2] < a[3]));
  expect(clash).toEqual([]);
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`many requests are a heat map, of which a part is selected, ${colorScheme}`, async ({ page, demo }) => {
    await page.emulateMedia({ colorScheme });
    const asked: string[] = [];
    page.on('request', (r) => asked.push(r.url()));
    // as many as dots cannot show, of which one failed
    await changed(page, 'over_time', (body) => {
      const cells = body['cells'] as { requests: number; errors: number }[];
      for (const c of cells) {
        c.requests *= 20;
        c.errors = 0;
      }
      cells[0]!.errors = 1;
      body['requests'] = (body['requests'] as number) * 20;
    });
    await page.goto(demo);
    await settled(page);
    const plot = page.getByRole('application', { name: /as a heat map/ });
    await expect(plot).toBeVisible();
    // what only dots need is not read
    expect(asked.filter((url) => url.includes('/api/each'))).toEqual([]);
    await expect(page.getByText('with failures × 1')).toBeVisible();
    await accessible(page);
    await plot.scrollIntoViewIfNeeded();
    const box = (await plot.boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.4, box.y + 12);
    await expect(page.locator('#cell')).toContainText(/At \+.*: \d/);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.8, box.y + box.height * 0.5, { steps: 5 });
    await page.mouse.up();
    // open above: others may have taken longer
    await expect(page).toHaveURL(/from=%2B\d+ns&to=%2B\d+ns&longer=\d+ns/);
    await expect(page).not.toHaveURL(/shorter=/);
    await settled(page);
    // dots are there all the same
    await page.getByRole('button', { name: 'Dots' }).click();
    await expect(page).toHaveURL(/plot=dots/);
    await expect(page.getByRole('application', { name: /arrow keys|Left and right go to the next one in time/ })).toBeVisible();
    await page.getByRole('button', { name: 'Heat map' }).click();
    await page.getByRole('button', { name: 'Clear' }).click();
    await expect(page).not.toHaveURL(/longer=/);
    // by keyboard
    await plot.focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('Shift+ArrowDown');
    await page.keyboard.press('Enter');
    await expect(page).toHaveURL(/longer=\d+ns/);
    await page.setViewportSize({ width: 390, height: 800 });
    await fits(page);
  });
}

test('what sets the selected ones apart is ranked, and a value becomes a chip', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  await choose(page, 'kind:/vote', /GET \/vote\/\{n\}/);
  await search(page, 'slower:1us');
  await expect(page).toHaveURL(/longer=1us/);
  await settled(page);
  const apart = page.getByRole('region', { name: 'What sets the selected ones apart' });
  // of one kind all are selected
  await expect(apart).toContainText('there are no others to compare with');
  await page.getByRole('button', { name: /^Take away kind/ }).click();
  await page.getByRole('button', { name: /^Take away slower/ }).click();
  await expect(apart).toHaveCount(0);
  await search(page, 'path:/vote');
  await expect(page).toHaveURL(/with=kind%3D\*%2Fvote\*/);
  await settled(page);
  const answer = told('requests', '--common', '--limit=12', '--with=kind=*/vote*') as { values: { attribute: string; value: string }[] };
  const rows = apart.getByRole('region', { name: /^Attributes/ }).locator('tbody tr');
  await expect(rows).toHaveCount(answer.values.length);
  await expect(rows.first()).toContainText(answer.values[0]!.attribute);
  await expect(page.locator('code', { hasText: '--common' })).toContainText("'--with=kind=*/vote*'");
  await accessible(page);
  const call = apart.getByRole('link', { name: /^only these: call INSERT INTO votes/ });
  await call.click();
  await expect(page).toHaveURL(/call%3DINSERT/);
  await expect(page.getByRole('button', { name: /^Take away call INSERT INTO votes/ })).toBeVisible();
  await settled(page);
  await expect(page.locator('code', { hasText: '--map' })).toContainText('--with=call=INSERT INTO votes');
  // what has no search box says of which requests the strip is
  await page.getByRole('navigation').getByRole('link', { name: 'Tasks', exact: true }).click();
  await expect(page.locator('#strip-is')).toContainText('Only path */vote*, call INSERT INTO votes');
  await page.goBack();
  // a link leads to the same
  await page.goto(page.url());
  await expect(page.getByRole('button', { name: /^Take away/ })).toHaveCount(2);
  await page.getByRole('button', { name: 'Clear' }).click();
  await expect(page).not.toHaveURL(/with=/);
});

test('the search box completes from the recording, by keyboard', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  await page.keyboard.press('/');
  const box = page.getByRole('combobox', { name: 'Select requests' });
  await expect(box).toBeFocused();
  const list = page.getByRole('listbox', { name: 'In the recording' });
  await expect(list.getByRole('option', { name: /^client / }).first()).toBeVisible();
  for (const name of ['kind', 'service', 'status', 'call', 'process']) await expect(list.getByRole('option', { name: new RegExp(`^${name} `) }).first()).toBeVisible();
  await accessible(page);
  await page.keyboard.type('sql:candidates');
  await expect(list.getByRole('option').first()).toContainText('candidates');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/with=call%3D/);
  await expect(page.getByRole('button', { name: /^Take away call/ })).toBeVisible();
  // with nothing typed, Backspace takes the last away
  await box.focus();
  await page.keyboard.press('Backspace');
  await expect(page).not.toHaveURL(/with=/);
  await search(page, 'nothing is called so');
  await expect(page.getByRole('alert')).toContainText('Nothing in the recording is called');
  await search(page, '>10ms');
  await expect(page).toHaveURL(/longer=10ms/);
  await expect(page.getByRole('button', { name: 'Take away slower than 10.0 ms' })).toBeVisible();
});

test('a recording without requests leads to its tasks', async ({ page, lttng }) => {
  await page.goto(lttng);
  await settled(page);
  const main = page.locator('main');
  await expect(main).toContainText('No requests, but tasks');
  await expect(main).not.toContainText('under load');
  await expect(main).not.toContainText('Not known');
  await accessible(page);
  await fits(page);
  await page.getByRole('link', { name: 'Show the tasks' }).click();
  await expect(page).toHaveURL(/view=tasks/);
  await expect(page.getByRole('application', { name: /Tasks over time/ })).toBeVisible();
});

test('a recording without requests and waits says what is known all the same', async ({ page, marks }) => {
  await page.goto(marks);
  await settled(page);
  await expect(page.getByRole('link', { name: 'Show the tasks' })).toHaveCount(0);
  const limit = page.getByRole('region', { name: 'What was found' }).locator('.card', { hasText: 'room in credit' });
  await limit.getByRole('link', { name: 'Show what would help' }).click();
  await expect(page).toHaveURL(/view=whatif/);
  await page.goBack();
  await accessible(page);
});

test('answers are files, too', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  const part = page.getByRole('region', { name: 'Kinds of request' });
  const [file] = await Promise.all([page.waitForEvent('download'), part.getByRole('link', { name: 'JSON' }).click()]);
  expect(file.suggestedFilename()).toBe('wakepath-requests.json');
  const [picture] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save picture' }).click()]);
  expect(picture.suggestedFilename()).toBe('wakepath-requests.png');
  // what is exported is what is selected
  await page.goto(`${demo}?longer=1us&with=${encodeURIComponent('call=*votes*')}`);
  await settled(page);
  await page.getByText('Download the selected requests').click();
  const files = page.getByRole('region', { name: 'Download the selected requests' });
  await expect(files.locator('code', { hasText: '--to folded' })).toContainText("--longer-than=1us '--with=call=*votes*' --output=requests.folded");
  for (const [name, form] of [['Flame graph', 'folded'], ['OpenTelemetry (OTLP)', 'otlp'], ['Jaeger', 'jaeger']] as const) {
    const [stored] = await Promise.all([page.waitForEvent('download'), files.getByRole('button', { name: `Download ${name}` }).click()]);
    const exported = spawnSync(given('WAKEPATH'), ['export', '--to', form, '--longer-than=1us', '--with=call=*votes*', given('PAGE_DEMO')], { cwd: process.env.PAGE_FROM, maxBuffer: 1 << 30 });
    expect(exported.status, String(exported.stderr)).toBe(0);
    expect((await readFile(await stored.path())).equals(exported.stdout)).toBe(true);
    await expect(files.getByRole('status').filter({ hasText: /^Downloaded [\d.]+ .?B: \d+ requests/ }).first()).toBeVisible();
  }
  await accessible(page);
});

test('a download that fails says why', async ({ page, demo }) => {
  await page.goto(`${demo}?kind=${encodeURIComponent('GET /nowhere')}`);
  await settled(page);
  await page.getByText('Download the selected requests').click();
  const files = page.getByRole('region', { name: 'Download the selected requests' });
  await files.getByRole('button', { name: 'Download Jaeger' }).click();
  await expect(files.getByRole('alert')).toContainText(/^No file: no request of kind "GET \/nowhere"/);
  // one that is cut off while it is sent
  await page.route('**/api/downloads', async (route) => {
    const body = (await (await route.fetch()).json()) as { stage: string; said: string | null }[];
    await route.fulfill({ json: body.map((e) => ({ ...e, stage: 'failed', said: 'the recording cannot be read' })) });
  });
  await page.goto(demo);
  await settled(page);
  await page.getByText('Download the selected requests').click();
  await files.getByRole('button', { name: 'Download Prometheus' }).click();
  await expect(files.getByRole('alert')).toContainText('No file: the recording cannot be read');
  await accessible(page);
});

test('requests are selected by their main cause, as the commands select them', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  const box = page.getByRole('combobox', { name: 'Select requests' });
  await box.fill('cause:');
  const choices = page.getByRole('listbox', { name: 'In the recording' }).getByRole('option', { name: /^cause/ });
  await expect(choices.first()).toBeVisible();
  const cause = (await choices.first().locator('.what').innerText()).trim();
  await search(page, `cause:${cause}`);
  await expect(page).toHaveURL(new RegExp(`with=cause%3D${cause}`));
  await expect(page.getByRole('button', { name: /^Take away main cause/ })).toBeVisible();
  await settled(page);
  const command = page.getByRole('region', { name: 'Kinds of request' }).locator('code');
  await expect(command).toContainText(`--with=cause=${cause}`);
  const answer = spawnSync(given('WAKEPATH'), ['requests', '--json', `--with=cause=${cause}`, given('PAGE_DEMO')], { encoding: 'utf8', cwd: process.env.PAGE_FROM, maxBuffer: 1 << 30 });
  const found = (JSON.parse(answer.stdout) as { requests: number }).requests;
  expect(found).toBeGreaterThan(0);
  // each of the dots has it, and no other
  const legend = page.getByRole('list', { name: /^Colors: main cause/ });
  await expect(legend.getByRole('listitem').filter({ hasNotText: 'failed' })).toHaveCount(1);
  await expect(legend).toContainText(`× ${found}`);
  await accessible(page);
  // what sets them apart is their cause; the legend takes it away
  await expect(page.getByRole('region', { name: 'What sets the selected ones apart' })).toContainText('main cause');
  await legend.getByRole('link').click();
  await expect(page).not.toHaveURL(/cause/);
});
