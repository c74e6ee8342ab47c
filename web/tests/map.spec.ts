/** Requests are selected by what they pass through, on the service map. */
import type { Locator, Page } from '@playwright/test';
import { accessible, expect, fits, search, settled, test } from './served';

const command = (page: Page, has: string): Locator => page.locator('code', { hasText: has });
const number = (text: string) => Number(text.replace(/\D/g, ''));

/** Of how many requests the kinds that are listed are. */
async function requests(page: Page): Promise<number> {
  const kinds = page.getByRole('region', { name: 'Kinds of request' });
  return number(/([\d\s\u202f]+) requests? in/.exec(await kinds.innerText())![1]!);
}

for (const colorScheme of ['light', 'dark'] as const) {
  test(`a service of the map is selected by mouse, and everything follows, ${colorScheme}`, async ({ page, demo }) => {
    await page.emulateMedia({ colorScheme });
    await page.goto(demo);
    await settled(page);
    const all = await requests(page);
    const map = page.getByRole('listbox', { name: /^Service map/ });
    const cache = map.getByRole('option', { name: /^service redis/ });
    await cache.click();
    await expect(page).toHaveURL(/service=redis(-server)?%3A\d+/);
    const name = new URL(page.url()).searchParams.get('service')!;
    await settled(page);
    await expect(cache).toHaveAttribute('aria-selected', 'true');
    await expect(page.locator('#map-is')).toContainText(`Selected: requests known to pass through ${name}`);
    // dots, map and kinds are of the selection, and each says with which command
    for (const part of ['requests --each', 'requests --map', 'requests --service']) await expect(command(page, part)).toContainText(`--service=${name}`);
    const selected = await requests(page);
    expect(selected).toBeGreaterThan(0);
    expect(selected).toBeLessThan(all);
    await expect(page.locator('main')).toContainText(`All ${selected} requests that pass through.`);
    await accessible(page);
    // a link leads to the same; Why and Flame follow
    const address = page.url();
    await page.goto(address);
    await expect(cache).toHaveAttribute('aria-selected', 'true');
    await page.getByRole('link', { name: 'What do the selected ones spend more on?' }).click();
    await expect(command(page, 'wakepath why')).toContainText(`--service=${name}`);
    await expect(page.getByRole('button', { name: `Take away through ${name}` })).toBeVisible();
    await settled(page);
    await expect(page.getByRole('alert')).toHaveCount(0);
    await page.goto(address.replace('?', '?view=flame&'));
    await expect(command(page, 'wakepath flame')).toContainText(`--service=${name}`);
    await expect(page.locator('main')).toContainText(/Compared with \d+ requests? that are not selected/);
    // Back undoes it, and so does a second click
    await page.goto(demo);
    await cache.click();
    await expect(page).toHaveURL(/service=/);
    await page.goBack();
    await expect(page).not.toHaveURL(/service=/);
    await settled(page);
    await expect.poll(() => requests(page)).toBe(all);
    await cache.click();
    await expect(cache).toHaveAttribute('aria-selected', 'true');
    await settled(page);
    await cache.click();
    await expect(page).not.toHaveURL(/service=/);
  });
}

test('services and calls of the map are selected by keyboard', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  const map = page.getByRole('listbox', { name: /^Service map/ });
  const active = () => map.evaluate((box) => document.getElementById(box.getAttribute('aria-activedescendant')!)!.getAttribute('aria-label')!);
  await map.focus();
  await page.keyboard.press('Home');
  expect(await active()).toMatch(/^service nginx/);
  await page.keyboard.press('ArrowRight');
  expect(await active()).toMatch(/^nginx\S* calls gunicorn/);
  await page.keyboard.press('ArrowRight');
  expect(await active()).toMatch(/^service gunicorn/);
  await page.keyboard.press('ArrowRight');
  const way = await active();
  const [, caller, called] = /^(\S+) calls (\S+):/.exec(way)!;
  await page.keyboard.press('ArrowUp');
  expect(await active()).toMatch(/ calls /);
  expect(await active()).not.toBe(way);
  await page.keyboard.press('ArrowDown');
  expect(await active()).toBe(way);
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(new RegExp(`service=${encodeURIComponent(caller!)}&calls=${encodeURIComponent(called!)}`));
  await settled(page);
  await expect(command(page, 'requests --each')).toContainText(`--service=${caller} --calls=${called}`);
  await expect(page.locator('#map-is')).toContainText(`have a call from ${caller} to ${called}`);
  await expect(map.locator('[aria-selected="true"]')).toHaveAccessibleName(new RegExp(`^${caller} calls ${called}`));
  await accessible(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await fits(page);
  await map.focus();
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/service=|calls=/);
  await page.goBack();
  await expect(page).toHaveURL(/calls=/);
});

test('a service that does not exist is told, with what there is', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  await search(page, 'service:postgre');
  await expect(page).toHaveURL(/service=postgre$/);
  const alerts = page.getByRole('alert');
  await expect(alerts.first()).toContainText(/no request is known to pass through "postgre": did you mean 'postgres:\d+'\?/);
  // without its port
  await search(page, 'service:postgres');
  await settled(page);
  await expect(alerts).toHaveCount(0);
  await expect(page.getByRole('option', { name: /^service postgres/ })).toHaveAttribute('aria-selected', 'true');
  expect(await requests(page)).toBeGreaterThan(0);
  await page.getByRole('button', { name: 'Clear' }).click();
  await expect(page).not.toHaveURL(/service/);
});
