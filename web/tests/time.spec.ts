/** Where time went: tasks over time, and flames. */
import { spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { accessible, choose, expect, fits, given, settled, test } from './served';

const PHONE = { width: 390, height: 800 };
const since = (url: string) => Number(/since=%2B(\d+)ns/.exec(url)?.[1] ?? NaN);
const until = (url: string) => Number(/until=%2B(\d+)ns/.exec(url)?.[1] ?? NaN);

test('tasks are shown, zoomed and summed up, by keyboard', async ({ page, demo }) => {
  await page.goto(`${demo}?view=tasks`);
  await settled(page);
  const tracks = page.getByRole('application', { name: /Tasks over time/ });
  await tracks.focus();
  await page.keyboard.press('w');
  await expect(page).toHaveURL(/since=%2B\d+ns&until=%2B\d+ns/);
  await settled(page);
  const [a, b] = [since(page.url()), until(page.url())];
  await page.keyboard.press('d');
  await expect.poll(() => since(page.url())).toBeGreaterThan(a);
  await settled(page);
  expect(Math.abs(until(page.url()) - since(page.url()) - (b - a))).toBeLessThanOrEqual(2);
  await page.keyboard.press('s');
  await expect.poll(() => since(page.url()) || 0).toBeLessThanOrEqual(a);
  await settled(page);
  // the first task, its active path, and its sums
  await page.keyboard.press('ArrowDown');
  await expect(page).toHaveURL(/task=/);
  await expect(page.locator('#part')).toContainText(' on ');
  await settled(page);
  await expect(page.locator('code', { hasText: '--path' })).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: /Sums of 1 task/ })).toBeVisible();
  await settled(page);
  await expect(page.getByRole('region', { name: 'Time by state' })).toContainText('running');
  await page.keyboard.press('p');
  await expect(page).toHaveURL(/pin=\d+/);
  await settled(page);
  await expect(page.getByRole('button', { name: /^Pin / })).toHaveAttribute('aria-pressed', 'true');
  const address = page.url();
  await tracks.focus();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('heading', { name: 'Sums of what is shown' })).toBeVisible();
  await page.goto(address);
  await expect(page.getByRole('heading', { name: /Sums of 1 task/ })).toBeVisible();
  await page.goBack();
  await expect(page.getByRole('heading', { name: 'Sums of what is shown' })).toBeVisible();
});

test('an area of tasks is summed up, by mouse', async ({ page, demo }) => {
  await page.goto(`${demo}?view=tasks&find=postgres`);
  await settled(page);
  await expect(page.locator('code', { hasText: 'timeline --search=postgres' }).first()).toBeVisible();
  const tracks = page.getByRole('application', { name: /Tasks over time/ });
  await tracks.scrollIntoViewIfNeeded();
  const box = (await tracks.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.2, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.95, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await expect(page).toHaveURL(/area_from=%2B\d+ns&area_to=%2B\d+ns&area=/);
  await expect(page.getByRole('heading', { name: /Sums of 2 tasks/ })).toBeVisible();
  await settled(page);
  await expect(page.getByRole('region', { name: 'Time by state' }).locator('tbody tr')).not.toHaveCount(0);
  await page.getByRole('button', { name: 'Clear the area' }).click();
  await expect(page).not.toHaveURL(/area/);
  // the wheel zooms where the pointer is
  await settled(page);
  const again = (await tracks.boundingBox())!;
  await page.mouse.move(again.x + again.width * 0.6, again.y + 40);
  await page.mouse.wheel(0, -300);
  await expect.poll(() => since(page.url()) > 0 && until(page.url()) > since(page.url())).toBe(true);
  await page.getByRole('button', { name: 'All', exact: true }).click();
  await expect(page).not.toHaveURL(/since/);
});

test('processors say which tasks had them, and a task is chosen there', async ({ page, demo }) => {
  await page.goto(`${demo}?view=tasks`);
  await settled(page);
  await expect(page.locator('code', { hasText: '--processors' })).toBeVisible();
  const processors = page.getByRole('region', { name: 'Processors' });
  await expect(processors.locator('tbody tr').first()).toContainText(/^processor \d+ ?[\d.]+ m?s ?[\d.]+ %/);
  await expect(page.getByRole('list', { name: /^Colors: the program/ })).toContainText('gunicorn');
  const task = processors.getByRole('button').first();
  const name = (await task.textContent())!;
  await task.focus();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(new RegExp(`task=${encodeURIComponent(name).replaceAll('%20', '\\+')}.*pin=`));
  await settled(page);
  await accessible(page);
  await fits(page);
  // the same time as above it
  await page.getByRole('button', { name: 'Zoom in' }).click();
  await expect(page.locator('code', { hasText: '--processors' })).toContainText('--from=');
});

test('system calls and events lead to the track', async ({ page, demo }) => {
  await page.goto(`${demo}?view=tasks`);
  await settled(page);
  const calls = page.getByRole('region', { name: 'Waits by system call' });
  await expect(calls.locator('tbody tr').first()).toContainText(/[\d.]+ m?s/);
  // the events of one call
  const call = calls.locator('tbody tr td:first-child').getByRole('button').first();
  const name = (await call.textContent())!;
  await call.click();
  await settled(page);
  const events = page.getByRole('region', { name: 'Events in order of time' });
  await expect(events.locator('tbody tr').first().locator('td').nth(4)).toContainText(name);
  // to the track of one
  const task = events.getByRole('button').first();
  const of = (await task.textContent())!;
  await task.click();
  await expect(page).toHaveURL(new RegExp(`task=${encodeURIComponent(of).replaceAll('%20', '\\+')}.*since=`));
  await settled(page);
  await accessible(page);
  await fits(page);
  // what matches nothing says so
  await page.goto(`${demo}?view=tasks&what=nothing-such`);
  await settled(page);
  await expect(page.getByText('No event matches')).toBeVisible();
});

test('a flame shows where the time went, and what a selection has more of', async ({ page, demo }) => {
  await page.goto(`${demo}?view=flame`);
  await settled(page);
  const flame = page.getByRole('listbox', { name: /Where the time went/ });
  for (const service of ['nginx', 'gunicorn', 'postgres']) await expect(flame.getByRole('option', { name: new RegExp(`^service .*${service}`) }).first()).toBeVisible();
  await expect(page.getByRole('region', { name: 'Causes, largest first' }).locator('tbody tr')).not.toHaveCount(0);
  await flame.focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/at=/);
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/at=/);
  await flame.getByRole('option', { name: /^program / }).first().click();
  await expect(page.getByRole('button', { name: 'Show all' })).toBeVisible();
  await page.goBack();
  await choose(page, 'kind:/vote', /GET \/vote\/\{n\}/);
  await expect(page.locator('code', { hasText: 'wakepath flame' })).toContainText('--difference');
  await settled(page);
  await expect(page.locator('main')).toContainText(/Compared with [1-9]/);
  await expect(page.getByRole('columnheader', { name: 'than the others' })).toBeVisible();
  await accessible(page);
});

test('a frame is shown with what is above and below it, by mouse and by keyboard', async ({ page, demo }) => {
  await page.goto(`${demo}?view=flame`);
  await settled(page);
  const flame = page.getByRole('listbox', { name: /Where the time went/ });
  // by keyboard: the service below the host
  await flame.focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('s');
  await expect(page).toHaveURL(/frame=/);
  const chosen = flame.locator('[aria-selected="true"]');
  await expect(chosen).toHaveAccessibleName(/^service /);
  await page.keyboard.press('ArrowUp');
  await expect(chosen).toHaveAccessibleName(/^above .*: host /);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await expect(chosen).toHaveAccessibleName(/^below .*: program /);
  await page.keyboard.press('Enter');
  await expect(chosen).toHaveAccessibleName(/^program /);
  await page.goBack();
  await expect(chosen).toHaveAccessibleName(/^service /);
  await flame.focus();
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/frame=/);
  // by mouse: a program out of the list; its time is that of all above it, and of all below it
  const frames = page.getByRole('combobox', { name: 'Above and below' });
  await frames.selectOption((await frames.locator('option', { hasText: /^program postgres/ }).first().getAttribute('value'))!);
  const table = page.getByRole('region', { name: 'Above and below the frame, largest first' });
  await expect(table.locator('tbody tr').first()).toContainText('itself');
  const wide = async (name: RegExp) => {
    const boxes = await flame.getByRole('option', { name }).locator('rect.box').all();
    const all = await Promise.all(boxes.map(async (b) => Number(await b.getAttribute('width')) + 1));
    return all.reduce((sum, w) => sum + w, 0);
  };
  const whole = await wide(/^program postgres/);
  expect(Math.abs((await wide(/^above .*: service /)) - whole)).toBeLessThan(0.02 * whole);
  expect(Math.abs((await wide(/^below .*: cause /)) - whole)).toBeLessThan(0.02 * whole);
  const address = page.url();
  await flame.getByRole('option', { name: /^above .*: service / }).first().click();
  await expect(chosen).toHaveAccessibleName(/^service /);
  await page.goto(address);
  await expect(chosen).toHaveAccessibleName(/^program postgres/);
  await settled(page);
  for (const size of [{ width: 1280, height: 800 }, PHONE]) {
    await page.setViewportSize(size);
    await accessible(page);
    await fits(page);
  }
});

test('two recordings are compared, each with the other', async ({ page, two }) => {
  await page.goto(`${two}?view=flame`);
  await settled(page);
  const compare = page.getByRole('combobox', { name: 'Compare' });
  await expect(compare.locator('option')).toHaveCount(3);
  await compare.selectOption('0-1');
  await expect(page).toHaveURL(/compare=0-1/);
  await expect(page.locator('code', { hasText: 'wakepath flame --against' })).toBeVisible();
  await expect(page.locator('main')).toContainText(/[1-9]\d* requests of .* on average\. Compared with 90 requests in /);
  await expect(page.getByRole('columnheader', { name: 'than there' })).toBeVisible();
  const flame = page.getByRole('listbox', { name: /Where the time went/ });
  await expect(flame.getByRole('option', { name: /^service .*postgres.*; \+.* than in / }).first()).toBeVisible();
  await expect(flame.locator('rect.more').first()).toBeVisible();
  await settled(page);
  await accessible(page);
  // by keyboard, the other way round, of one frame
  await compare.focus();
  await page.keyboard.press('End');
  await expect(page).toHaveURL(/compare=1-0/);
  await expect(page.locator('main')).toContainText(/90 requests of .* on average\. Compared with [1-9]\d* requests in /);
  await settled(page);
  await flame.focus();
  await page.keyboard.press('s');
  await expect(page.getByRole('region', { name: 'Above and below the frame, largest first' })).toContainText('itself');
  await page.setViewportSize(PHONE);
  await fits(page);
});

for (const scheme of ['light', 'dark'] as const) {
  test(`tasks with a path and an area are accessible and fit, ${scheme}`, async ({ page, demo }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await page.goto(`${demo}?view=tasks`);
    await settled(page);
    await page.getByRole('application', { name: /Tasks over time/ }).focus();
    await page.keyboard.press('ArrowDown');
    await expect(page).toHaveURL(/task=/);
    await page.keyboard.press('Enter');
    await settled(page);
    for (const size of [{ width: 1280, height: 800 }, PHONE]) {
      await page.setViewportSize(size);
      await accessible(page);
      await fits(page);
    }
  });
}

// annotations of a simulated system: what its forecast is does not depend on how busy this machine was
test('what if shows a forecast under changes, and what limits then', async ({ page, marks }) => {
  await page.goto(`${marks}?view=whatif`);
  await settled(page);
  const table = page.getByRole('region', { name: 'Forecast' });
  await expect(table).toContainText('mean latency');
  await expect(page.locator('main')).toContainText('The bottleneck is room in credit');
  const slider = page.getByRole('slider', { name: 'queue credit' });
  await slider.focus();
  await page.keyboard.press('End');
  await expect(page).toHaveURL(/change=queue\+credit%3D2/);
  await settled(page);
  await expect(page.getByRole('heading', { name: 'What it would be' })).toBeVisible();
  await expect(page.locator('code', { hasText: 'wakepath forecast' })).toContainText("--change=queue credit=2");
  // old and new in one chart: as the table has it, and what is forecast lies left of what was measured
  const chart = page.getByRole('img', { name: /^Latency, old and new: mean latency measured 11 ns, forecast / });
  const row = table.getByRole('row', { name: /^mean latency/ });
  await expect(chart).toHaveAccessibleName(new RegExp(`forecast ${await row.locator('strong').innerText()}, error bar not known`));
  // of one run nobody knows how much others differ: no bar is drawn
  await expect(row).toContainText('not known');
  await expect(page.getByRole('note')).toContainText(/too short to know how much it varies, so (some )?error bars are not known/);
  await expect(chart.locator('.bar')).toHaveCount(0);
  const middle = async (dot: string) => Number(await chart.locator(dot).first().getAttribute('cx'));
  expect(await middle('circle.new')).toBeLessThan(await middle('circle.old'));
  await page.getByRole('button', { name: 'Take away queue credit=2' }).click();
  await expect(page).not.toHaveURL(/change=/);
  await expect(page.getByRole('heading', { name: 'As it is' })).toBeVisible();
  await page.getByRole('textbox', { name: 'Another change' }).fill('queue nobody=+2');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('alert')).toContainText('nobody');
  await page.goBack();
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    await settled(page);
    await expect(table).toBeVisible();
    await accessible(page);
  }
  await page.setViewportSize(PHONE);
  await fits(page);
});

test('a request is zoomed around the chosen call, and back', async ({ page, demo }) => {
  await page.goto(`${demo}?view=request&request=slowest`);
  await settled(page);
  const list = page.getByRole('listbox', { name: /Waterfall/ });
  const bar = list.getByRole('option').first().locator('rect.span').first();
  const whole = await bar.getAttribute('width');
  await list.focus();
  await page.keyboard.press('w');
  await expect(page).toHaveURL(/since=%2B\d+ns&until=%2B\d+ns/);
  await expect.poll(async () => Number(await bar.getAttribute('width'))).toBeCloseTo(2 * Number(whole), 1);
  const [a, b] = [since(page.url()), until(page.url())];
  await page.keyboard.press('d');
  await expect.poll(() => since(page.url())).toBeGreaterThan(a);
  expect(Math.abs(until(page.url()) - since(page.url()) - (b - a))).toBeLessThanOrEqual(2);
  await page.reload();
  await settled(page);
  await expect.poll(async () => Number(await bar.getAttribute('width'))).toBeCloseTo(2 * Number(whole), 1);
  await page.getByRole('button', { name: 'All', exact: true }).click();
  await expect(page).not.toHaveURL(/since/);
  await expect.poll(async () => await bar.getAttribute('width')).toBe(whole);
});

test('tasks say which command writes what is shown for Perfetto', async ({ page, demo }) => {
  await page.goto(`${demo}?view=tasks`);
  await settled(page);
  const command = page.getByRole('region', { name: 'Download for Perfetto' }).locator('code');
  // of more tasks than are shown, those that are
  await expect(command).toContainText(/wakepath export --to perfetto (--task=\S+\/\d+ ){20}--output=tasks\.pftrace \//);
  await page.getByRole('textbox', { name: /Tasks with/ }).fill('redis-server');
  await page.keyboard.press('Enter');
  await expect(command).toContainText(/--to perfetto --search=redis-server --output=/);
  await page.getByRole('button', { name: 'Zoom in' }).click();
  await expect(command).toContainText(/--search=redis-server --from=\+\d+ns --until=\+\d+ns --output=/);
  await settled(page);
  // it can be run
  const [, ...words] = (await command.innerText()).replace(/^\$ /, '').replace(/ --output=\S+ .*/, '').split(' ');
  const written = spawnSync(given('WAKEPATH'), [...words, '--output=/dev/null', given('PAGE_DEMO')], { encoding: 'utf8' });
  expect(written.stderr).toMatch(/exported .* [1-9]\S* intervals? of tasks/);
  expect(written.status).toBe(0);
});

test('a request can be downloaded for Perfetto, and as a bundle', async ({ page, demo }) => {
  await page.goto(`${demo}?view=request&request=slowest`);
  await settled(page);
  const part = page.getByRole('region', { name: 'Download the request' });
  const command = part.locator('code', { hasText: '--to perfetto' });
  await expect(command).toContainText(/wakepath export --to perfetto --request=([0-9a-f]{16}) --output=request-\1\.pftrace .+/);
  // of the request that is shown
  const id = /--request=([0-9a-f]{16})/.exec(await command.innerText())![1]!;
  await expect(page.locator('main')).toContainText(`request ${id}`);
  await expect(part.locator('code', { hasText: 'wakepath bundle' })).toContainText(`${id} -o request-${id}-bundle`);
  for (const [name, file, said] of [['Perfetto', `request-${id}.pftrace`, /: 1 request, .*intervals of tasks/], ['Bundle', `request-${id}.bundle.tar`, /: request [0-9a-f]{16} of the bundle: .* rows/]] as const) {
    const [stored] = await Promise.all([page.waitForEvent('download'), part.getByRole('button', { name: `Download ${name}` }).click()]);
    expect(stored.suggestedFilename()).toBe(file);
    expect(await stored.failure()).toBeNull();
    await expect(part.getByRole('status').filter({ hasText: said })).toBeVisible();
    const path = await stored.path();
    if (name === 'Perfetto') continue;
    // it is a folder that answers
    const folder = test.info().outputPath('bundle');
    await mkdir(folder, { recursive: true });
    expect(spawnSync('tar', ['-xf', path, '-C', folder]).status).toBe(0);
    const answer = spawnSync(given('WAKEPATH'), ['show', folder, 'slowest'], { encoding: 'utf8' });
    expect(answer.status, answer.stderr).toBe(0);
  }
  await accessible(page);
});

test('tasks of programs that serve come first, and a wait leads to who ended it', async ({ page, demo }) => {
  await page.goto(`${demo}?view=tasks`);
  await settled(page);
  const told = spawnSync(given('WAKEPATH'), ['timeline', '--columns=1', '--limit=0', '--json', given('PAGE_DEMO')], { encoding: 'utf8', cwd: process.env.PAGE_FROM, maxBuffer: 1 << 28 });
  const tasks = (JSON.parse(told.stdout) as { tasks: { serves: boolean; program: string }[] }).tasks;
  const last = tasks.findLastIndex((t) => t.serves);
  expect(last).toBeGreaterThan(2);
  expect(tasks.slice(0, last).every((t) => t.serves)).toBe(true);
  expect(tasks.slice(0, last).map((t) => t.program)).toContain('gunicorn');
  const legend = page.getByRole('list', { name: 'Colors: what a task did' });
  for (const state of ['running', 'network', 'waiting for a processor']) await expect(legend).toContainText(state);
  // the longest interval of a worker of which it is known who ended it
  interface Part { from_ns: number; to_ns: number; by: string | null }
  const length = 20_000_000;
  const endedFrom = (from: number) => {
    const ask = ['timeline', '--search=gunicorn', `--from=+${from}ns`, `--to=+${from + length}ns`, '--columns=600', '--limit=0', '--json', given('PAGE_DEMO')];
    const drawn = JSON.parse(spawnSync(given('WAKEPATH'), ask, { encoding: 'utf8', cwd: process.env.PAGE_FROM, maxBuffer: 1 << 28 }).stdout) as { begin_ns: number; tasks: { task: string; parts: Part[] }[] };
    return drawn.tasks.flatMap((t) => t.parts.filter((p) => p.by).map((part) => ({ task: t.task, part, begin: drawn.begin_ns })));
  };
  // on a busy machine, there may be none in so short a time, and load begins late
  let from = 300_000_000;
  let ended = endedFrom(from);
  for (; ended.length === 0 && from < 6_000_000_000; ended = endedFrom(from)) from += 5 * length;
  const to = from + length;
  const { task, part, begin } = ended.reduce((a, b) => (b.part.to_ns - b.part.from_ns > a.part.to_ns - a.part.from_ns ? b : a));
  await page.goto(`${demo}?view=tasks&find=${encodeURIComponent(task)}&since=%2B${from}ns&until=%2B${to}ns`);
  await settled(page);
  const tracks = page.getByRole('application', { name: /Tasks over time/ });
  await tracks.scrollIntoViewIfNeeded();
  const box = (await tracks.boundingBox())!;
  const middle = (part.from_ns + part.to_ns) / 2 - begin - from;
  await page.mouse.click(box.x + 170 + (middle / (to - from)) * (box.width - 170), box.y + 32);
  const jump = page.getByRole('button', { name: `Go to who ended the wait of ${task}: ${part.by}` });
  await expect(jump).toBeVisible();
  const [waiter, waker] = [task, part.by!.split(' on ')[0]!].map((name) => name.slice(name.lastIndexOf('/') + 1));
  await tracks.focus();
  await page.keyboard.press('j');
  await expect(page).toHaveURL(new RegExp(`pin=${waiter}%2C${waker}`));
  await expect(page).toHaveURL(new RegExp(`task=[^&]*%2F${waker}`));
  await settled(page);
  await accessible(page);
});

test('repeated calls of a request are one row with their number, and a statement is shown whole', async ({ page, demo }) => {
  const statement = `SELECT ${Array.from({ length: 60 }, (_, i) => `column_${i}`).join(', ')} FROM votes WHERE id = ?`;
  await page.route('**/api/show?**', async (route) => {
    const reply = await route.fetch();
    const body = (await reply.json().catch(() => null)) as { spans: Record<string, unknown>[] } | null;
    if (body === null) return route.abort().catch(() => undefined);
    const leaf = body.spans.find((s) => !body.spans.some((o) => o['parent'] === s['span']))!;
    const one = (i: number) => ({ ...leaf, span: 1000 + i, asked: statement, offset_ns: 100_000 + i * 20_000, duration_ns: 10_000 });
    await route.fulfill({ response: reply, json: { ...body, spans: [...body.spans, ...Array.from({ length: 120 }, (_, i) => one(i))] } });
  });
  await page.goto(`${demo}?view=request&request=slowest`);
  await settled(page);
  const list = page.getByRole('listbox', { name: /Waterfall/ });
  const row = list.getByRole('option', { name: /^× 120, N\+1 / });
  await expect(row).toContainText('× 120, N+1');
  // whole on hover
  await expect(row.locator('.label')).toHaveAttribute('title', new RegExp('column_59 FROM votes'));
  await row.hover();
  const details = page.getByRole('complementary');
  const code = details.locator('code.statement');
  await expect(code).toContainText('column_59 FROM votes');
  const isCut = () => code.evaluate((e) => e.scrollHeight > e.clientHeight + 1);
  expect(await isCut()).toBe(true);
  // and by a key
  await list.focus();
  await page.keyboard.press('e');
  await expect.poll(isCut).toBe(false);
  await expect(details.getByRole('button', { name: 'Whole statement (e)' })).toHaveAttribute('aria-pressed', 'true');
  await accessible(page);
  // the small picture zooms
  const map = (await page.locator('.minimap svg').boundingBox())!;
  await page.mouse.move(map.x + map.width * 0.2, map.y + 15);
  await page.mouse.down();
  await page.mouse.move(map.x + map.width * 0.5, map.y + 15, { steps: 4 });
  await page.mouse.up();
  await expect(page).toHaveURL(/since=%2B\d+ns&until=%2B\d+ns/);
});
