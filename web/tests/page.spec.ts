import { accessible, choose, expect, fits, search, settled, test } from './served';

const VIEWS = ['', '?view=why', '?view=request', '?view=flame', '?view=tasks'];
/** Whether a forecast of a recording holds depends on it: it may be refused, with the reason. */
const ALL = [...VIEWS, '?view=whatif'];
const PHONE = { width: 390, height: 800 };

for (const scheme of ['light', 'dark'] as const) {
  test(`every view of the demo is accessible and fits, ${scheme}`, async ({ page, demo }) => {
    await page.emulateMedia({ colorScheme: scheme });
    for (const view of VIEWS) {
      for (const size of [{ width: 1280, height: 800 }, PHONE]) {
        await page.setViewportSize(size);
        await page.goto(demo + view);
        await settled(page);
        await expect(page.getByRole('alert')).toHaveCount(0);
        await fits(page);
        // what a phone shows has the same colours and names
        if (size !== PHONE || scheme === 'light') await accessible(page);
      }
    }
  });
}

test('the overview shows services, requests and kinds, each with its command', async ({ page, demo }) => {
  await page.goto(demo);
  const services = page.getByRole('listbox', { name: /services and .* calls between/ });
  await expect(services).toBeVisible();
  for (const name of ['nginx', 'gunicorn', 'postgres', 'redis']) await expect(services).toContainText(name);
  await expect(services).toContainText('p99');
  await expect(page.getByRole('region', { name: 'Kinds, most frequent first' })).toContainText('GET /vote/{n}');
  for (const command of ['wakepath triage', 'wakepath requests --each', 'wakepath requests --map', 'wakepath requests /']) {
    await expect(page.locator('code', { hasText: `$ ${command}` }).first()).toBeVisible();
  }
  await choose(page, 'kind:/results', /GET \/results/);
  await expect(page).toHaveURL(/kind=/);
  await expect(page.locator('code', { hasText: '--each' })).toContainText('GET /results');
  await page.goBack();
  await expect(page).not.toHaveURL(/kind=/);
  await expect(page.locator('code', { hasText: '--each' })).not.toContainText('GET /results');
});

test('how far the reading is is told, and it can be given up', async ({ page, demo }) => {
  // the answers that read the recording come later
  let give: () => void = () => {};
  const held = new Promise<void>((done) => (give = done));
  for (const question of ['each', 'map', 'requests', 'over_time', 'triage']) {
    await page.route(`**/api/${question}?**`, async (route) => (await held, await route.continue().catch(() => undefined)));
  }
  await page.route('**/api/progress', (route) => route.fulfill({ json: [{ question: '/api/over_time?columns=120', read: 0.437 }] }));
  await page.goto(demo);
  await expect(page.locator('main')).toContainText(/\d m?s from \d{4}-\d\d-\d\d .* UTC on 1 host/);
  await expect(page.getByRole('region', { name: 'Losses' })).toContainText('Reading whether paths are incomplete');
  for (const what of ['requests', 'what was found', 'services', 'kinds', 'the strip of time']) await expect(page.getByText(`Reading ${what} …`)).toBeVisible();
  await expect(page.getByRole('progressbar', { name: 'Of the recording, read for requests' })).toBeVisible();
  await expect(page.getByText('43 % of the recording read').first()).toBeVisible();
  await expect(page.getByText(/waiting for other answers, or preparing; \d+ s/).first()).toBeVisible();
  await accessible(page);
  // each on its own
  await page.getByRole('button', { name: 'Stop reading services' }).click();
  await expect(page.getByText('You stopped waiting for services.')).toBeVisible();
  await expect(page.getByText('Reading requests …')).toBeVisible();
  give();
  await page.getByRole('button', { name: 'Read services' }).click();
  await settled(page);
  await expect(page.getByRole('listbox', { name: /services and .* calls between/ })).toBeVisible();
  await expect(page.getByRole('progressbar')).toHaveCount(0);
  // how much of what was recorded comes last
  await page.getByText('What was recorded').click();
  const recorded = page.getByRole('region', { name: 'What was recorded' });
  await expect(recorded).toContainText(/host .*; [\d\s\u202f]+ rows, [\d.]+ .?B\./);
  await expect(recorded.locator('code')).toContainText('wakepath info --brief');
  await accessible(page);
});

test('what was still in progress, and replies that were held back, are told as the commands tell them', async ({ page, demo }) => {
  const sentence = 'web:80 wrote replies in several pieces';
  const before_sentence = 'When recording began: 2 TCP connections were open. On 1 of them nothing has moved since.';
  for (const [question, change] of [['requests', { held_replies: [{ sentence }] }], ['why', { held_replies: [{ sentence }] }], ['open', { before_sentence }]] as const) {
    await page.route(`**/api/${question}?**`, async (route) => {
      const reply = await route.fetch();
      // none where the page has gone on meanwhile
      const body = (await reply.json().catch(() => null)) as object | null;
      if (body === null) return route.abort().catch(() => undefined);
      // all of it is there already: only the texts are those of a recording that has such
      for (const name of Object.keys(change)) expect(body).toHaveProperty(name);
      await route.fulfill({ response: reply, json: { ...body, ...change } });
    });
  }
  await page.goto(demo);
  await settled(page);
  await expect(page.getByRole('region', { name: 'Kinds of request' })).toContainText(sentence);
  const ended = page.getByRole('region', { name: 'When the recording ended' });
  await expect(ended).toContainText(/when it ended|when the recording ended/);
  await expect(ended).toContainText(before_sentence);
  await expect(ended.locator('code')).toContainText('wakepath open');
  await page.goto(`${demo}?view=why`);
  await expect(page.locator('main')).toContainText(sentence);
});

test('a dot opens its request, by mouse and by keyboard', async ({ page, demo }) => {
  await page.goto(demo);
  const plot = page.getByRole('application', { name: /Requests by the time/ });
  await plot.focus();
  await page.keyboard.press('End');
  await expect(page.locator('#dot')).toContainText(' ms');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/view=request&request=[0-9a-f]{16}/);
  await expect(page.getByRole('listbox')).toBeVisible();
  await page.goBack();
  await expect(plot).toBeVisible();
  // the pointer finds the nearest dot
  await settled(page);
  await plot.scrollIntoViewIfNeeded();
  const box = (await plot.boundingBox())!;
  const dot = page.locator('#dot');
  let found = false;
  for (let i = 0; i < 200 && !found; i++) {
    await page.mouse.move(box.x + 80 + (i % 20) * ((box.width - 100) / 20), box.y + box.height - 30 - Math.floor(i / 20) * 25);
    found = !(await dot.innerText()).includes('Point at a dot');
  }
  expect(found).toBe(true);
});

test('a request shows its waterfall, critical path and evidence', async ({ page, demo }) => {
  await page.goto(`${demo}?view=request&request=slowest&kind=${encodeURIComponent('GET /vote/{n}')}`);
  const list = page.getByRole('listbox');
  const rows = list.getByRole('option');
  await expect(rows.first()).toContainText('nginx');
  await list.focus();
  await page.keyboard.press('ArrowDown');
  const details = page.getByRole('complementary');
  await expect(details).toContainText('gunicorn');
  await expect(details).toContainText('evidence');
  await expect(details).toContainText('On the critical path');
  await expect(page).toHaveURL(/span=1/);
  // an arrow from each caller, and along the critical path
  await settled(page);
  const calls = list.locator('path.call');
  await expect(calls.first()).toBeAttached();
  await expect(list.locator('path.path').first()).toBeAttached();
  await page.getByRole('button', { name: 'Arrows' }).click();
  await expect(calls).toHaveCount(0);
  await page.goBack();
  await expect(calls.first()).toBeAttached();
  const address = page.url();
  const on = await list.locator('rect[class*="c-"]').count();
  expect(on).toBeGreaterThan(1);
  await page.getByRole('button', { name: 'off' }).click();
  await expect(list.locator('rect[class*="c-"]')).toHaveCount(0);
  await page.getByRole('button', { name: 'only' }).click();
  await expect(list.locator('rect[class*="c-"]').first()).toBeVisible();
  await page.goBack();
  await expect(page).toHaveURL(/path=off/);
  // a link leads to the same row
  await page.goto(address);
  await expect(list.locator('[aria-selected="true"]')).toContainText('gunicorn');
  // alike ones are one row, until they are opened
  const alike = rows.filter({ hasText: /× \d/ }).first();
  if (await alike.count()) {
    const before = await rows.count();
    await alike.click();
    expect(await rows.count()).toBeGreaterThan(before);
  }
});

test('who ended a wait is followed', async ({ page, demo }) => {
  await page.goto(`${demo}?view=request&request=slowest&kind=${encodeURIComponent('GET /vote/{n}')}`);
  await settled(page);
  // what a database or a cache waits for, and what a server does, comes from these
  const by = page.getByRole('complementary').getByRole('link', { name: /^(nginx|gunicorn)\// }).first();
  const rows = page.getByRole('option');
  await page.getByRole('listbox').focus();
  for (let i = 0, all = await rows.count(); i < all && (await by.count()) === 0; i++) {
    await page.keyboard.press(i === 0 ? 'Home' : 'ArrowDown');
    await expect(rows.nth(i)).toHaveAttribute('aria-selected', 'true');
  }
  const waker = await by.innerText();
  await by.click();
  await expect(page).toHaveURL(/view=tasks&task=/);
  await settled(page);
  // its track and the waiter's are on top, and its active path below it
  await expect(page.getByRole('button', { name: `Pin ${waker}` })).toHaveAttribute('aria-pressed', 'true');
  await expect(page.locator('code', { hasText: '--path' })).toBeVisible();
  await page.goBack();
  await expect(page.getByRole('listbox')).toBeVisible();
});

test('why ranks differences that add up, with examples', async ({ page, demo }) => {
  await page.goto(`${demo}?view=why&slowest=5%25`);
  const table = page.getByRole('region', { name: 'Differences, largest first' }).first();
  await expect(table).toContainText('the whole difference');
  await expect(page.locator('code', { hasText: '--slowest=5%' })).toBeVisible();
  await table.getByRole('link').first().click();
  await expect(page).toHaveURL(/view=request/);
  await expect(page.getByRole('listbox')).toBeVisible();
});

test('what is brushed is selected, and why follows it', async ({ page, demo }) => {
  await page.goto(demo);
  const plot = page.getByRole('application', { name: /Requests by the time/ });
  await expect(plot).toBeVisible();
  await settled(page);
  await plot.scrollIntoViewIfNeeded();
  const at = (await plot.boundingBox())!;
  await page.mouse.move(at.x + at.width * 0.3, at.y + 4);
  await page.mouse.down();
  await page.mouse.move(at.x + at.width * 0.6, at.y + at.height - 4, { steps: 5 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=%2B\d+ns&to=%2B\d+ns$/);
  await expect(page.locator('code', { hasText: '--map' })).toContainText('--from=+');
  await page.getByRole('link', { name: 'What do the selected ones spend more on?' }).click();
  await expect(page.locator('main')).toContainText('The selected ones of');
  await expect(page.locator('code', { hasText: 'wakepath why' })).toContainText('--from=+');
  await accessible(page);
  // the same without a mouse
  await search(page, 'slower:15ms');
  await expect(page).toHaveURL(/longer=15ms/);
  await expect(page.locator('code', { hasText: 'wakepath why' })).toContainText('--longer-than=15ms');
  await page.getByRole('button', { name: 'Clear' }).click();
  await expect(page.locator('main')).toContainText(/The slowest [\d.]+( %)? of/);
});

test('an imported LTTng trace is shown', async ({ page, lttng }) => {
  for (const view of ALL) {
    await page.goto(lttng + view);
    await settled(page);
    await accessible(page);
    await fits(page);
  }
});

test('hostile names are shown as text', async ({ page, hostile }) => {
  for (const view of ALL) {
    for (const size of [{ width: 1280, height: 800 }, PHONE]) {
      await page.setViewportSize(size);
      await page.goto(hostile + view);
      await settled(page);
      await expect(page.locator('img, script:not([src])')).toHaveCount(0);
      await fits(page);
      if (size !== PHONE) await accessible(page);
    }
    // tasks have no paths, and are drawn; a forecast has services, and a flame programs
    if (view.includes('flame')) await expect(page.locator('main')).toContainText('</script><script>alert(1)</script>');
    else if (!/tasks|whatif/.test(view)) await expect(page.locator('main')).toContainText('<img src=x onerror=alert(1)>');
    expect(await page.locator('body').innerText()).not.toMatch(/[\u202e\u2066\u001b]/);
  }
  // and a kind with such a name can be asked for
  await page.goto(hostile);
  const box = page.getByRole('combobox', { name: 'Select requests' });
  await box.fill('kind:');
  await expect(page.getByRole('listbox', { name: 'In the recording' }).getByRole('option')).toHaveCount(3);
  await choose(page, 'DROP TABLE', /DROP TABLE/);
  await expect(page.locator('#dot')).toContainText('All 30 requests');
});

test('a request that does not exist is said to be so', async ({ page, demo }) => {
  await page.goto(`${demo}?view=request&request=ffffffffffffffff`);
  await expect(page.getByRole('alert')).toContainText('no request begins with');
  await page.goto(`${demo}?view=request&request=${encodeURIComponent('--help')}`);
  await expect(page.getByRole('alert')).toContainText('give an id or its first digits');
});
