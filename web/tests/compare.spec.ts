/** Two periods, or two recordings, side by side on every view. */
import { accessible, expect, fits, settled, test } from './served';
import type { Page } from '@playwright/test';

const SIZES = [{ width: 800, height: 900 }, { width: 2560, height: 1200 }];
const KINDS = 'Kinds of request, what changed most first';
const SERVICES = 'Services, what changed most first';
const value = (page: Page, name: string) => Number(new RegExp(`[?&]${name}=%2B(\\d+)ns`).exec(page.url())?.[1] ?? NaN);
const strip = (page: Page) => page.getByRole('application', { name: /^Rate, errors and durations over time\./ });
const goTo = (page: Page, view: string) => page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: view, exact: true }).click();

/** Selects the end of the recording, by keyboard. */
async function selectEnd(page: Page, columns: number) {
  await strip(page).focus();
  await page.keyboard.press('End');
  for (let i = 0; i < columns; i++) await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/[?&]from=%2B\d+ns&to=%2B\d+ns/);
}

test('a period is compared with the time before it, on every view', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  await selectEnd(page, 50);
  await page.getByRole('button', { name: 'Compare with the time before' }).click();
  await expect(page).toHaveURL(/against_from=%2B\d+ns&against_to=%2B\d+ns/);
  expect(value(page, 'against_to')).toBe(value(page, 'from'));
  await settled(page);
  await expect(page.getByText(/^Selected for every view: .*, compared with .* \(dashed\)\.$/)).toBeVisible();
  await expect(page.locator('rect.second')).toBeVisible();
  // kinds and services: old and new in each row, by the command that prints the same
  for (const name of [KINDS, SERVICES]) await expect(page.getByRole('region', { name, exact: true }).locator('tbody')).toContainText(' → ');
  await expect(page.getByRole('listbox', { name: /^Service map/ }).getByRole('option', { name: /^service .*postgres.*: p50 .*, p99 .*, errors / })).toHaveCount(1);
  await expect(page.locator('code', { hasText: 'requests --from' }).filter({ hasText: '--against-to' })).not.toHaveCount(0);
  await expect(page.getByText(/^Each figure: the period .* → the period /).first()).toBeVisible();
  for (const size of SIZES) {
    await page.setViewportSize(size);
    await accessible(page);
    await fits(page);
  }

  await goTo(page, 'Why');
  await settled(page);
  await expect(page.locator('code', { hasText: 'wakepath why' })).toContainText('--against-from');
  await expect(page.locator('main')).toContainText(/Compared: those of the period .*, \S+ .?s on average of \d+, with those of the period /);
  await expect(page.getByRole('columnheader', { name: 'the other', exact: true }).first()).toBeVisible();
  await accessible(page);

  await goTo(page, 'Flame');
  await settled(page);
  await expect(page.locator('main')).toContainText(/Compared with [1-9]\d* requests in the other period/);
  await accessible(page);

  // one request belongs to one side: nothing is compared there, and the comparison is there again afterwards
  await goTo(page, 'Request');
  await expect(page.getByRole('button', { name: 'Compare with nothing' })).toHaveCount(0);
  await goTo(page, 'Overview');
  const from = value(page, 'from');
  await page.getByRole('button', { name: 'Swap the two' }).click();
  await expect.poll(() => value(page, 'against_from')).toBe(from);
  await page.getByRole('button', { name: 'Compare with nothing' }).click();
  await expect(page).not.toHaveURL(/against/);
  await settled(page);
  await expect(page.getByRole('region', { name: 'Kinds, most frequent first' })).toBeVisible();
});

test('any two periods are compared, by mouse and by keyboard', async ({ page, demo }) => {
  await page.goto(demo);
  await settled(page);
  await selectEnd(page, 30);
  await settled(page);
  const box = (await strip(page).boundingBox())!;
  const drag = async (from: number, to: number) => {
    await page.mouse.move(box.x + box.width * from, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * to, box.y + 20, { steps: 4 });
    await page.mouse.up();
  };
  await page.getByRole('button', { name: 'Compare with another period' }).click();
  await expect(page.getByText(/^Mark the period to compare with/)).toBeVisible();
  await drag(0.2, 0.5);
  await expect(page).toHaveURL(/against_from=%2B\d+ns&against_to=%2B\d+ns/);
  const [first, from] = [value(page, 'against_from'), value(page, 'from')];
  expect(first).toBeLessThan(from);
  // Shift while dragging chooses another one
  await page.keyboard.down('Shift');
  await drag(0.3, 0.6);
  await page.keyboard.up('Shift');
  await expect.poll(() => value(page, 'against_from')).toBeGreaterThan(first);
  expect(value(page, 'from')).toBe(from);
  // by keyboard: the first ten columns
  await strip(page).focus();
  await page.keyboard.press('c');
  await page.keyboard.press('Home');
  for (let i = 0; i < 10; i++) await page.keyboard.press('Shift+ArrowRight');
  await page.keyboard.press('Enter');
  await expect.poll(() => value(page, 'against_from')).toBe(0);
  expect(value(page, 'from')).toBe(from);
  // Escape ends the comparison first, then the selection
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/against/);
  expect(value(page, 'from')).toBe(from);
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/from=/);
});

for (const scheme of ['light', 'dark'] as const) {
  test(`two recordings are compared on every view, ${scheme}`, async ({ page, two }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await page.goto(two);
    await settled(page);
    await page.getByRole('combobox', { name: 'Compare', exact: true }).selectOption('0-1');
    await expect(page).toHaveURL(/compare=0-1/);
    await settled(page);
    await expect(page.getByRole('application', { name: /^Rate, errors and durations over time/ })).toHaveCount(2);
    const kinds = page.getByRole('region', { name: KINDS });
    await expect(kinds.locator('tr', { hasText: 'GET /vote/{n}' }).first()).toContainText('new');
    await expect(kinds.locator('tr', { hasText: 'gone' })).not.toHaveCount(0);
    await expect(page.locator('code', { hasText: 'wakepath requests --against' })).not.toHaveCount(0);
    for (const size of SIZES) {
      await page.setViewportSize(size);
      await accessible(page);
      await fits(page);
    }
    await goTo(page, 'Why');
    await expect(page).toHaveURL(/compare=0-1/);
    await settled(page);
    await expect(page.locator('main')).toContainText('Only in one of the two: ');
    await page.getByRole('button', { name: 'Clear' }).click();
    await expect(page).not.toHaveURL(/compare/);
  });
}
